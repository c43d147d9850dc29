// Figures, ratios and goals in words, for the terminal and for the page.

import type { Spread } from './ratios.ts'
import { FIGURES, type Figure, type Measured, type Result } from './row.ts'

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
export function figureInWords(figure: Figure, { median }: Pick<Spread, 'median'>): string {
  const { unit, places } = FIGURES[figure]
  return withUnit(number(median, places), unit)
}

/** Of several rounds, from the least to the most. */
function fromTo({ least, most }: Spread, places: number): string {
  return least === most ? '' : ` (${number(least, places)} to ${number(most, places)})`
}

const withSpread = (spread: Spread, places: number): string =>
  number(spread.median, places) + fromTo(spread, places)

/** The figures that any contestant of a row has, the one that the row is about first. */
export function figuresIn({ main, contestants }: Pick<Result, 'main' | 'contestants'>): Figure[] {
  const has = (figure: Figure): boolean => contestants.some(({ figures }) => isTold(figure, figures[figure]))
  const others = (Object.keys(FIGURES) as Figure[]).filter((figure) => figure !== main && has(figure))
  return [main, ...others]
}

/** That there were no errors goes without saying. */
const isTold = (figure: Figure, spread: Spread | undefined): boolean =>
  spread !== undefined && !(figure === 'errors' && spread.median === 0)

/** A figure of a contestant without its unit; empty when it has none. */
export function figureOf({ figures }: Measured, figure: Figure, isSpread: boolean): string {
  const spread = figures[figure]
  if (!spread) return ''
  const { places } = FIGURES[figure]
  return isSpread ? withSpread(spread, places) : number(spread.median, places)
}

/** The figure that a row is about. */
export function mainOf({ main }: Pick<Result, 'main'>, { figures }: Measured): string {
  const spread = figures[main]
  return spread ? figureInWords(main, spread) + fromTo(spread, FIGURES[main].places) : ''
}

/** What else was measured of a contestant. */
export function besideOf({ main }: Pick<Result, 'main'>, { figures }: Measured): string[] {
  return (Object.entries(figures) as [Figure, Spread][])
    .filter(([figure, spread]) => figure !== main && isTold(figure, spread))
    .map(([figure, spread]) => figureInWords(figure, spread))
}

const RATIO_PLACES = 2

export function ratiosOf({ ratios }: Result): string[] {
  return Object.entries(ratios).map(
    ([name, { spread }]) => `${name}: ${spread ? withSpread(spread, RATIO_PLACES) : 'not measured'}`,
  )
}

const MET = new Map([
  [true, 'met'],
  [false, 'MISSED'],
  [null, 'not measured'],
])

type GoalInWords = { words: string; value: string; verdict: string; isErrors: boolean }

/** Each goal in words, what was measured of it, and whether it is met. */
export function goalsOf({ goals }: Result): GoalInWords[] {
  return goals.map(({ words, unit, value, isMet }) => ({
    words,
    value:
      value === null
        ? ''
        : unit === null
          ? number(value, RATIO_PLACES)
          : figureInWords(unit, { median: value }),
    verdict: MET.get(isMet) ?? '',
    isErrors: unit === 'errors',
  }))
}
