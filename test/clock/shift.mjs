// Loaded before the program: its clock is SHIFT_MS off, or stopped at AT_MS. A process of its own with another
// clock, without a tool for it.

const real = Date.now
const shift = Number(process.env.SHIFT_MS ?? 0)
const still = Number(process.env.AT_MS)
Date.now = () => still || real() + shift
