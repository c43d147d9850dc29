// Figures, ratios and goals in words, for the terminal and for the page.

import { FIGURES, type Figure, type Measured, type Result } from './row.ts'
import type { Spread } from './statistics.ts'

/** Above this no decimals are written. */
const WHOLE_FROM = 100

/** A count as a reader wants it: thousands apart. */
export const counted = (value: number): string => value.toLocaleString('en-US')

/** A number as a reader wants it: thousands apart, and decimals only where they tell something. */
function number(value: number, places: number): string {
  if (places > 0 && value > 0 && value < 1) return value.toPrecision(2)
  const digits = Math.abs(value) >= WHOLE_FROM ? 0 : places
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

const withUnit = (text: string, unit: string): string =>
  unit.startsWith('/') ? text + unit : `${text} ${unit}`

/** The median of a figure, with its unit. */
export function figureInWords(figure: Figure, { median }: Spread): string {
  const { unit, places } = FIGURES[figure]
  return withUnit(number(median, places), unit)
}

/** From the least to the most of a figure's rounds. */
function spreadInWords(figure: Figure, { least, most }: Spread): string {
  const { places } = FIGURES[figure]
  return `${number(least, places)} to ${number(most, places)}`
}

/** The figure that a row is about. */
export function mainOf({ main }: Pick<Result, 'main'>, { figures }: Measured): string {
  const spread = figures[main]
  return spread ? `${figureInWords(main, spread)} (${spreadInWords(main, spread)})` : ''
}

/** What else was measured of a contestant. */
export function besideOf({ main }: Pick<Result, 'main'>, { figures }: Measured): string[] {
  return (Object.entries(figures) as [Figure, Spread][])
    .filter(([figure, { median }]) => figure !== main && !(figure === 'errors' && median === 0))
    .map(([figure, spread]) => figureInWords(figure, spread))
}

const RATIO_PLACES = 2

export function ratiosOf({ ratios }: Result): string[] {
  return Object.entries(ratios).map(
    ([name, { spread }]) =>
      `${name}: ${spread ? `${number(spread.median, RATIO_PLACES)} (${number(spread.least, RATIO_PLACES)} to ${number(spread.most, RATIO_PLACES)})` : 'not measured'}`,
  )
}

const MET = new Map([
  [true, 'met'],
  [false, 'MISSED'],
  [null, 'not measured'],
])

export function goalsOf({ goals }: Result): string[] {
  return goals.map(({ words, isMet }) => `${words}: ${MET.get(isMet)}`)
}
