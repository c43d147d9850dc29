// Money, coins and prices as exact integers of 1e-8, each with its own type so that none is taken for another.

import { Decimal } from 'decimal.js'
import { grouped } from './text.ts'

/** US dollars in units of 1e-8. */
export type Usd = bigint & { readonly unit: 'usd' }
/** Bitcoin in satoshis (1e-8 BTC). */
export type Btc = bigint & { readonly unit: 'btc' }
/** US dollars for one bitcoin, in units of 1e-8. */
export type Price = bigint & { readonly unit: 'usd/btc' }

/** Units of 1e-8 in one whole dollar, coin or dollar-per-coin. */
export const UNITS = 100_000_000n
/** One cent, the step of every amount the service asks a partner to spend. */
export const CENT = 1_000_000n as Usd
/** The largest amount that a column of the ledger holds: about 92 billion dollars. */
export const LEDGER_MAX = 2n ** 63n - 1n
const PLACES = 8
export const ZERO_USD = 0n as Usd

/** A decimal on the wire. Checked first, because decimal.js also takes "0x10", "1_000" and "Infinity". */
export const DECIMAL_PATTERN = /^-?\d{1,18}(\.\d{1,18})?$/

// 18 digits on either side of the point and the shift by 1e8 fit with room to spare, so nothing is rounded silently.
const Exact = Decimal.clone({ precision: 60, rounding: Decimal.ROUND_HALF_EVEN })

/** Parses a decimal text into units of 1e-8, rounded half-even at the eighth place. Throws on any other text. */
function units(text: string): bigint {
  const places = placesOf(text)
  if (places <= PLACES) return scaled(text, PLACES - places)
  return BigInt(new Exact(text).times('1e8').toDecimalPlaces(0).toFixed(0))
}

const EXACT_PLACES = 18
/** Units of 1e-18 in a unit. */
export const EXACT_PER_UNIT = 10n ** BigInt(EXACT_PLACES - PLACES)

/** Parses a decimal text into units of 1e-18, exactly. Throws on any other text. */
export function exact(text: string): bigint {
  return scaled(text, EXACT_PLACES - placesOf(text))
}

/** How many decimal places a text has. Throws on one that is not a decimal. */
function placesOf(text: string): number {
  if (!DECIMAL_PATTERN.test(text)) throw new RangeError(`not a decimal: ${JSON.stringify(text)}`)
  const point = text.indexOf('.')
  return point < 0 ? 0 : text.length - point - 1
}

/** The digits of a decimal as an integer, followed by `zeros` zeros. */
const scaled = (text: string, zeros: number): bigint => BigInt(text.replace('.', '') + '0'.repeat(zeros))

export const usd = (text: string): Usd => units(text) as Usd
export const btc = (text: string): Btc => units(text) as Btc
export const price = (text: string): Price => units(text) as Price

/** Dollars as text: at least two places, more only where they are not zero, never an exponent. */
export const formatUsd = (amount: Usd): string => format(amount, 2)
/** Dollars for people, cut off to the cent: no volume may seem to reach a tier that it does not reach. */
export const formatCents = (amount: Usd): string => formatUsd(floorToCents(amount))
/** Dollars with all their places, and with commas between thousands. */
export const printUsd = (amount: Usd): string => grouped(formatUsd(amount))
export const formatBtc = (amount: Btc): string => format(amount, 8)
export const formatPrice = (amount: Price): string => format(amount, 2)

/** An unrounded product, in units of 1e-`places` dollars, to the last place that is not zero. */
export const formatExact = (amount: bigint, places: number): string => format(amount, 2, places)

function format(amount: bigint, placesMin: number, places = PLACES): string {
  const sign = amount < 0n ? '-' : ''
  const written = (amount < 0n ? -amount : amount).toString()
  const digits = written.length > places ? written : written.padStart(places + 1, '0')
  const point = digits.length - places
  let end = digits.length
  while (end > point + placesMin && digits.charCodeAt(end - 1) === ZERO) end -= 1
  return `${sign}${digits.slice(0, point)}.${digits.slice(point, end)}`
}

const ZERO = 48

/** The largest whole number of cents not above `amount`. */
export const floorToCents = (amount: Usd): Usd => (amount - (((amount % CENT) + CENT) % CENT)) as Usd

/** numerator / denominator in units, rounded half-even to whole cents. Neither is negative. */
export const roundToCents = (numerator: bigint, denominator: bigint): Usd =>
  (divideHalfEven(numerator, denominator * CENT) * CENT) as Usd

/** Division of non-negative integers, rounded half-even. */
export function divideHalfEven(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator
  const twice = (numerator % denominator) * 2n
  if (twice > denominator || (twice === denominator && quotient % 2n === 1n)) return quotient + 1n
  return quotient
}

/** Units of 1e-18 in units of 1e-8, rounded half-even as a confirmation is. */
export function roundExact(amount: bigint): bigint {
  const rounded = divideHalfEven(amount < 0n ? -amount : amount, EXACT_PER_UNIT)
  return amount < 0n ? -rounded : rounded
}

/** Dollars per coin, rounded half-even at the eighth place; null without volume, or where adjustments left none. */
export function averagePrice(volume: Usd, btc: Btc): Price | null {
  return btc <= 0n || volume <= 0n ? null : (divideHalfEven(volume * UNITS, btc) as Price)
}

export const lesser = <T extends bigint>(a: T, b: T): T => (a < b ? a : b)

/** A price as a float, only for the statistics of the timing engine. No amount is ever computed from it. */
export const priceAsNumber = (amount: Price): number => Number(amount) / 1e8
