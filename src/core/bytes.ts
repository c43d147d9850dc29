// How a number of bytes is put in words, the same way wherever a person reads one.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** "3.4 GiB". */
export function spellBytes(bytes: number): string {
  let [value, unit] = [bytes, 0]
  for (; value >= 1024 && unit < UNITS.length - 1; unit++) value /= 1024
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`
}

/** What is free of a disk: "20 GiB free of 40 GiB (50 %)". */
export function spellFree(free: number, total: number): string {
  const share = total === 0 ? 0 : Math.floor((100 * free) / total)
  return `${spellBytes(free)} free of ${spellBytes(total)} (${share} %)`
}
