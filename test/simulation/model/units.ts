// The model's own arithmetic and its own texts of amounts and instants: nothing here is the program's.

export const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

/** Units of an amount: whole numbers of 1e-8. */
export const UNIT = 100_000_000n
export const CENT = 1_000_000n

/** A decimal text as units of 1e-8; further places are rounded half to even. */
export function units(text: string): bigint {
  const [whole = '', fraction = ''] = text.replace('-', '').split('.')
  const digits = BigInt(whole + fraction.padEnd(8, '0').slice(0, 8))
  const rest = fraction.slice(8).replace(/0+$/, '')
  const up = rest > '5' || (rest === '5' && digits % 2n === 1n)
  const size = up ? digits + 1n : digits
  return text.startsWith('-') ? -size : size
}

/** An amount as text, with at least so many places and no more than it needs. */
export function decimal(amount: bigint, places: number): string {
  const size = amount < 0n ? -amount : amount
  const text = (size + 10n ** 20n).toString().slice(-8).replace(/0+$/, '').padEnd(places, '0')
  return `${amount < 0n ? '-' : ''}${size / UNIT}.${text}`
}

export const dollars = (amount: bigint): string => decimal(amount, 2)
export const coins = (amount: bigint): string => decimal(amount, 8)

export const toCents = (amount: bigint): bigint => amount - (amount % CENT)

export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)

/** A quotient of numbers that are not negative, rounded half to even. */
export function halfEven(numerator: bigint, denominator: bigint): bigint {
  const whole = numerator / denominator
  const twice = 2n * (numerator - whole * denominator)
  if (twice < denominator || (twice === denominator && whole % 2n === 0n)) return whole
  return whole + 1n
}

export const iso = (at: number): string =>
  Temporal.Instant.fromEpochMilliseconds(at).toString({ fractionalSecondDigits: 3 })
export const isoOrNull = (at: number | null): string | null => (at === null ? null : iso(at))

export const monthOf = (at: number): string => iso(at).slice(0, 7)

/** A month, half-open: from its first instant to the first of the next one. */
export function monthBounds(month: string): { start: number; end: number } {
  const [year = 0, number = 1] = month.split('-').map(Number)
  return { start: Date.UTC(year, number - 1), end: Date.UTC(year, number) }
}
