// Loaded before the program: its clock is SHIFT_MS off. A process of its own with a wrong clock, without a tool for it.

const real = Date.now
const shift = Number(process.env.SHIFT_MS ?? 0)
Date.now = () => real() + shift
