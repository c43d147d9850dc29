// The results of a backtest, in sentences: in basis points for a title, in money for a plan, and by the moment at which
// a plan begins. A mean never stands without its interval, or without a remark that the data are too few for one.

import { counted, grouped } from '../../core/text.ts'
import { DAY_MS } from '../../core/time.ts'
import { type Frequency, WINDOW_MS } from '../../core/window.ts'
import { type BacktestResult, BLOCKS_MIN, type Costs, markup } from '../../engine/backtest-savings.ts'

export const hasFewBlocks = ({ blocks }: Pick<BacktestResult, 'blocks'>): boolean => blocks < BLOCKS_MIN

/** How a saving is written without its sign, and the unit after it. */
type Unit = { places: number; name: string }

const BP: Unit = { places: 1, name: 'bp' }
const USD: Unit = { places: 2, name: 'USD' }

const amountOf = (saving: number, { places }: Unit): string => grouped(Math.abs(saving).toFixed(places))
const sideOf = (saving: number, { places }: Unit): 'less' | 'more' =>
  saving < 0 && Number(saving.toFixed(places)) !== 0 ? 'more' : 'less'

/** "1.6 bp less", "0.38 USD more". */
const lessOrMore = (saving: number, unit: Unit): string =>
  `${amountOf(saving, unit)} ${unit.name} ${sideOf(saving, unit)}`

/** "0.6 to 2.6 bp less", or "8.6 bp more to 2.3 bp less" where a range holds zero. */
function rangeOf(low: number, high: number, unit: Unit): string {
  if (sideOf(low, unit) !== sideOf(high, unit)) return `${lessOrMore(low, unit)} to ${lessOrMore(high, unit)}`
  const [from, to] = [low, high].sort((a, b) => Math.abs(a) - Math.abs(b)) as [number, number]
  return amountOf(from, unit) === amountOf(to, unit)
    ? lessOrMore(to, unit)
    : `${amountOf(from, unit)} to ${lessOrMore(to, unit)}`
}

/** "95 %: 0.6 to 2.6 bp less". */
const intervalOf = (result: BacktestResult, [low, high]: [number, number], unit: Unit): string =>
  hasFewBlocks(result) ? 'too few blocks for an interval' : `95 %: ${rangeOf(low, high, unit)}`

const NAMES: Record<Frequency, string> = { daily: 'Daily', weekly: 'Weekly', 'bi-weekly': 'Bi-weekly' }

export function finding(result: BacktestResult): string {
  const { frequency, mean_bp, mean_bp_ci95 } = result
  return `${NAMES[frequency]} windows paid ${inMean(mean_bp, mean_bp)} (${intervalOf(result, mean_bp_ci95, BP)})`
}

export function findings(results: readonly BacktestResult[]): string {
  const means = results.map(({ mean_bp }) => mean_bp)
  const [first] = results
  return `On average, the timing paid ${inMean(Math.min(...means), Math.max(...means))}${first ? costly(first) : ''}`
}

/** The comparison that a founder asks for: the saving over the same amount each day. */
export function foundOfDca(results: readonly BacktestResult[]): string {
  const means = results.map(({ baselines }) => baselines.dca.mean_bp)
  return `Plain DCA, the same amount each day, paid ${inMean(Math.min(...means), Math.max(...means))}.`
}

const inMean = (low: number, high: number): string =>
  [low, high].every((mean) => Number(mean.toFixed(BP.places)) === 0)
    ? 'the average price to 0.1 bp'
    : `${rangeOf(low, high, BP)} than the average price`

const costly = (costs: Costs): string => (markup(costs) === 1 ? '' : ', with fee and spread')

/** How much of a plan's mean is the chance of its beginning. */
export function foundByStart({ frequency, starts }: BacktestResult): string {
  const { plans, every_minutes, lowest_mean_bp, highest_mean_bp } = starts
  const every = plans === 1 ? '' : `, one every ${every_minutes} minutes`
  return (
    `${NAMES[frequency]} plans can begin at ${counted(plans, 'moment')}${every}. By that alone the mean of a plan was ` +
    `${rangeOf(lowest_mean_bp, highest_mean_bp, BP)} than the average price.`
  )
}

/** Round, and large enough at every frequency for units above the default minimum: the windows are cut as here. */
export const PLAN_USD_A_YEAR = 12_000
const YEAR_DAYS = 365.25

/** The difference in a year, for a plan of a stated amount. Both sides pay the same fee and spread. */
export function foundInMoney(result: BacktestResult): string {
  const { frequency, mean_bp, mean_bp_ci95, over_dca_bp, over_dca_bp_ci95, years } = result
  const even = (bp: number): number => (PLAN_USD_A_YEAR * timingBp(bp, result)) / 1e4
  const dca = (bp: number): number => (PLAN_USD_A_YEAR * bp) / markup(result) / 1e4
  const compared = (usdOf: (bp: number) => number, bp: number, [low, high]: [number, number]): string[] => [
    lessOrMore(usdOf(bp), USD),
    `(${intervalOf(result, [usdOf(low), usdOf(high)], USD)})`,
  ]
  const [evenly, evenlyWithin] = compared(even, mean_bp, mean_bp_ci95)
  const [overDca, overDcaWithin] = compared(dca, over_dca_bp, over_dca_bp_ci95)
  const worst = years.reduce((a, b) => (b.mean_bp < a.mean_bp ? b : a))
  const inWorst = `${worst.year}, ${lessOrMore(even(worst.mean_bp), USD)} than evenly`
  const perWindow = (PLAN_USD_A_YEAR * WINDOW_MS[frequency]) / DAY_MS / YEAR_DAYS
  return (
    `In money: of ${grouped(PLAN_USD_A_YEAR)} USD a year, ${perWindow.toFixed(2)} a window, a plan paid ${evenly} ` +
    `than spending evenly ${evenlyWithin} and ${overDca} than plain DCA ${overDcaWithin}` +
    `${years.length > 1 ? `; in the worst year, ${inWorst}` : ''}.${costsInMoney(result)}`
  )
}

/** A saving as it would be if the time-weighted average were bought at the same costs. */
const timingBp = (bp: number, costs: Costs): number => 1e4 * (1 - (1 - bp / 1e4) / markup(costs))

function costsInMoney(costs: Costs): string {
  const share = 1 - 1 / markup(costs)
  if (share === 0) return ' No fee or spread is in it.'
  return ` Fee and spread took ${grouped((PLAN_USD_A_YEAR * share).toFixed(2))} USD of it, whenever it was bought.`
}
