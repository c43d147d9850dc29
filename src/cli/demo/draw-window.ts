// Draws a window over time: its prices, and under them a lane for each reason to fire.

import { unreachable } from '../../core/assert.ts'
import { counted, grouped } from '../../core/counted.ts'
import { type ExecutionStatus, TRIGGERS, type Trigger } from '../../core/execution.ts'
import { type Usd, usd, ZERO_USD } from '../../core/money.ts'
import { TRIGGER_NAME } from '../shared/trigger-name.ts'
import type { Paint, Style } from '../terminal/paint.ts'
import { dayOfMonth, shortDate, weekday } from './dates.ts'
import { TIMELINE_COLUMNS, type Timeline, type TimelineTranche } from './timeline.ts'

const MARK: Record<ExecutionStatus, { glyph: string; style: Style; name: string }> = {
  filled: { glyph: '●', style: 'green', name: 'filled' },
  partial: { glyph: '◐', style: 'yellow', name: 'part-filled' },
  failed: { glyph: '×', style: 'red', name: 'failed' },
  cancelled: { glyph: '○', style: 'dim', name: 'cancelled' },
  sent: { glyph: '?', style: 'dim', name: 'unanswered' },
  pending: { glyph: '?', style: 'dim', name: 'not delivered' },
}
/** Where two fall on the same column, the one later in this list is shown. */
const MARK_ORDER = Object.keys(MARK) as ExecutionStatus[]

const LABEL_WIDTH = 10
const PRICE_ROWS = 4
const EIGHTHS = ' ▁▂▃▄▅▆▇█'
const COLUMNS = TIMELINE_COLUMNS

export function drawTimeline(timeline: Timeline, paint: Paint): string {
  const lanes = TRIGGERS.filter((trigger) => timeline.tranches.some((tranche) => tranche.trigger === trigger))
  return [
    title(timeline, paint),
    ...priceRows(timeline.prices_usd, paint),
    row('', paint('dim', '─'.repeat(COLUMNS)), { paint, edge: '├' }),
    ...lanes.map((trigger) => lane(timeline, trigger, paint)),
    spentLane(timeline, paint),
    ...axis(timeline, paint),
  ].join('\n')
}

/** What each mark stands for, of those that occur. */
export function legend(timelines: readonly Timeline[], paint: Paint): string {
  const seen = new Set(timelines.flatMap(({ tranches }) => tranches.map(({ status }) => status)))
  return MARK_ORDER.filter((status) => seen.has(status))
    .map((status) => `${paint(MARK[status].style, MARK[status].glyph)} ${MARK[status].name}`)
    .join('   ')
}

function title(timeline: Timeline, paint: Paint): string {
  const { partner_plan_id, window_start, window_end, budget_usd, spent_usd, tranches } = timeline
  const when =
    timeline.frequency === 'daily'
      ? `${weekday(window_start)} ${shortDate(window_start)}`
      : `${shortDate(window_start)} to ${shortDate(window_end)}`
  const spent = `${grouped(spent_usd)} of ${grouped(budget_usd)} USD in ${counted(tranches.length, 'tranche')}`
  return `${paint('bold', partner_plan_id)}  ${when}: ${spent}`
}

function priceRows(prices: readonly number[], paint: Paint): string[] {
  const low = Math.min(...prices)
  const high = Math.max(...prices)
  const steps = PRICE_ROWS * 8 - 1
  const heights = prices.map((price) => 1 + Math.round((steps * (price - low)) / Math.max(high - low, 1e-9)))
  return Array.from({ length: PRICE_ROWS }, (_, index) => {
    const below = (PRICE_ROWS - 1 - index) * 8
    const cells = heights.map((height) => EIGHTHS[Math.min(8, Math.max(0, height - below))])
    const label = index === 0 ? whole(high) : index === PRICE_ROWS - 1 ? whole(low) : ''
    return row(label, paint('blue', cells.join('')), { paint, edge: label === '' ? '│' : '┤' })
  })
}

const whole = (price: number): string => grouped(String(Math.round(price)))

function lane({ tranches }: Timeline, trigger: Trigger, paint: Paint): string {
  const own = tranches.filter((tranche) => tranche.trigger === trigger)
  const cells = Array.from({ length: COLUMNS }, (_, column) => {
    const here = own.filter((tranche) => columnOf(tranche) === column).map(({ status }) => status)
    const shown = MARK_ORDER.findLast((status) => here.includes(status))
    return shown ? paint(MARK[shown].style, MARK[shown].glyph) : ' '
  })
  return row(TRIGGER_NAME[trigger], cells.join(''), { paint, end: String(own.length).padStart(3) })
}

/** How much of the budget is spent by the end of each column, going by when its tranches fired. */
function spentLane({ tranches, budget_usd }: Timeline, paint: Paint): string {
  const budget = usd(budget_usd)
  const cells = Array.from({ length: COLUMNS }, (_, column) => {
    const spent = tranches
      .filter((tranche) => columnOf(tranche) <= column)
      .reduce((sum, tranche) => (sum + usd(tranche.spent_usd)) as Usd, ZERO_USD)
    return heightOf(spent, budget)
  })
  return row('spent', paint('cyan', cells.join('')), { paint })
}

/** A full block only for the whole budget, a blank only for nothing. */
export function heightOf(spent: Usd, budget: Usd): string {
  if (spent === ZERO_USD) return ' '
  if (spent >= budget) return '█'
  return EIGHTHS[1 + Number((spent * 7n) / budget)] ?? '█'
}

const columnOf = ({ position }: TimelineTranche): number =>
  Math.min(COLUMNS - 1, Math.floor(position * COLUMNS))

function axis(timeline: Timeline, paint: Paint): string[] {
  const labels = axisLabels(timeline)
  const line = Array.from({ length: COLUMNS }, () => '─')
  const text = Array.from({ length: COLUMNS }, () => ' ')
  labels.forEach((label, index) => {
    const column = Math.round((index * COLUMNS) / labels.length)
    line[column] = '┬'
    for (const [offset, letter] of [...label].entries()) text[column + offset] = letter
  })
  const edged = (label: string, cells: string[], edge: string) => row(label, cells.join(''), { paint, edge })
  return [paint('dim', edged('', line, '└')), paint('dim', edged('', text, ' ').trimEnd())]
}

function axisLabels({ frequency, window_start }: Timeline): string[] {
  switch (frequency) {
    case 'daily':
      return ['00:00', '06:00', '12:00', '18:00']
    case 'weekly':
      return Array.from(
        { length: 7 },
        (_, day) => `${weekday(window_start, day)} ${dayOfMonth(window_start, day)}`,
      )
    case 'bi-weekly':
      return Array.from({ length: 7 }, (_, pair) => shortDate(window_start, 2 * pair))
    default:
      return unreachable(frequency)
  }
}

type RowOptions = { paint: Paint; edge?: string; end?: string }

function row(label: string, cells: string, { paint, edge = '│', end = '' }: RowOptions): string {
  return `${label.padStart(LABEL_WIDTH)} ${paint('dim', edge)}${cells} ${end}`.trimEnd()
}
