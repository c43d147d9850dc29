// Puts the account into words, tables and drawings that fit an 80-column terminal.

import { counted, grouped } from '../../core/counted.ts'
import { TRIGGERS, type Trigger } from '../../core/execution.ts'
import { DAY_MS, type Instant, MINUTE_MS, parseInstant } from '../../core/instant.ts'
import { LEASE_MS } from '../../core/lease.ts'
import { formatUsd, roundToCents, type Usd, usd, ZERO_USD } from '../../core/money.ts'
import type { Streams } from '../context.ts'
import { TRIGGER_NAME } from '../shared/trigger-name.ts'
import { createPaint, type Paint } from '../terminal/paint.ts'
import { type Column, renderFields, renderTable } from '../terminal/table.ts'
import { wrapped } from '../terminal/wrap.ts'
import type { Account, PlanAccount, WindowAccount } from './account.ts'
import { shortDate } from './dates.ts'
import { drawTimeline, heightOf, legend } from './draw-window.ts'
import type { NextCommand } from './next-commands.ts'
import type { PriceComparison } from './price-comparison.ts'
import { DAYS, PASS_EVERY_MS, WEEKS } from './storyline.ts'

export type ShowOptions = {
  commands: readonly NextCommand[]
  /** Where the database was kept, null when it is gone. */
  file: string | null
  color: boolean
  out: Streams['out']
}

/** Windows with money left that are listed one by one; the JSON has them all. */
const LISTED_MAX = 12

export async function showAccount(account: Account, options: ShowOptions): Promise<string> {
  const paint = createPaint(options.out, options.color)
  const sections: [string, string][] = [
    ['What each window spent of its budget', await budgets(account, paint)],
    ['Two windows as they went', drawings(account, paint)],
    ['Why tranches fired', await triggers(account)],
    ['What the partner did', deeds(account)],
    ['What was paid, beside the time-weighted mean of the same windows', await prices(account)],
    ['The ledger', ledger(account, paint)],
    ['Run it for real', nextSteps(options, paint)],
  ]
  const shown = sections.map(([title, body]) => `${paint('bold', title)}\n\n${body}`)
  return [opening(account, paint), ...shown].join('\n\n\n')
}

function opening({ seed, from, to, scheduler }: Account, paint: Paint): string {
  const { passes, passes_missed: missed, passes_without_price: blind } = scheduler
  const text =
    `The service, its HTTP API and its database are the real ones; the prices are synthetic (seed ${seed}), ` +
    `the partner is simulated, and time runs fast. The scheduler ran ${counted(passes, 'tick')}, ` +
    `${grouped(blind)} of them without a price because the feed was down; ${grouped(missed)} did not run because ` +
    'cron was down.'
  return `${paint('bold', `${WEEKS} weeks of recurring purchases, ${shortDate(from)} to ${shortDate(to)}`)}\n\n${paragraph(text)}`
}

async function budgets({ plans, from }: Account, paint: Paint): Promise<string> {
  const columns: Column<PlanAccount>[] = [
    { title: 'PLAN', of: (plan) => plan.partner_plan_id },
    { title: 'BUDGET', of: (plan) => grouped(plan.amount_usd), right: true },
    {
      title: Array.from({ length: WEEKS }, (_, week) => `WEEK ${week + 1}`).join(' '),
      of: (plan) => strip(plan, from, paint),
    },
    { title: 'SPENT', of: (plan) => grouped(sumUsd(plan.windows, 'spent_usd')), right: true },
    { title: 'LEFT', of: (plan) => grouped(sumUsd(plan.windows, 'left_usd')), right: true },
    { title: 'TRANCHES', of: (plan) => sum(plan.windows.map(({ tranches }) => tranches)), right: true },
  ]
  const windows = plans.flatMap((plan) => plan.windows.map((window) => ({ plan, window })))
  const short = windows.filter(({ window }) => window.left_because !== null)
  const whole = windows.length - short.length
  const summary =
    `One column a day, as high as the share spent; a full block is the whole budget, to the cent. ` +
    `${grouped(whole)} of ${counted(windows.length, 'window')} spent all of it.`
  const parts = [await renderTable(columns, plans), paragraph(summary)]
  if (short.length > 0) parts.push(await renderTable(SHORT_COLUMNS, short.slice(0, LISTED_MAX)))
  if (short.length > LISTED_MAX) parts.push(`and ${short.length - LISTED_MAX} more: see --json`)
  return parts.join('\n\n')
}

const SHORT_COLUMNS: Column<{ plan: PlanAccount; window: WindowAccount }>[] = [
  { title: 'WINDOW', of: ({ plan, window }) => `${plan.partner_plan_id}, ${shortDate(window.window_start)}` },
  { title: 'SPENT', of: ({ window }) => grouped(window.spent_usd), right: true },
  { title: 'LEFT', of: ({ window }) => grouped(window.left_usd), right: true },
  { title: 'BECAUSE', of: ({ window }) => window.left_because },
]

/** One column a day: each window's share spent, over the days it covers. */
function strip(plan: PlanAccount, from: string, paint: Paint): string {
  const cells = Array.from({ length: DAYS }, () => ' ')
  for (const window of plan.windows) {
    const spent = usd(window.spent_usd)
    const full = spent === usd(window.budget_usd)
    const cell = paint(
      full ? 'green' : 'yellow',
      spent === 0n ? '·' : heightOf(spent, usd(window.budget_usd)),
    )
    cells.fill(cell, dayOf(window.window_start, from), dayOf(window.window_end, from))
  }
  return cells.join('')
}

function dayOf(instant: string, from: string): number {
  const at = (text: string): Instant => {
    const parsed = parseInstant(text)
    if (!parsed.ok) throw new Error(`not an instant: ${text}`)
    return parsed.at
  }
  return Math.round((at(instant) - at(from)) / DAY_MS)
}

function drawings({ timelines }: Account, paint: Paint): string {
  const drawn = timelines.map((timeline) => drawTimeline(timeline, paint))
  const hint = `Price in USD above; below, each tranche where it fired, by why it fired.`
  return [hint, ...drawn, legend(timelines, paint)].join('\n\n')
}

const TRIGGER_MEANING: Record<Trigger, string> = {
  slot_start: "a slot began: its first unit, at the slot's first price",
  limit: "the price fell to the next unit's reservation price",
  deadline: 'the end of a slot that had units left',
  catch_up: 'the scheduler had missed whole slots',
  failsafe: "the window's end came near: everything left, at once",
  clock: 'there was no live price: spread evenly over the slot',
}

const triggers = ({ tranches }: Account): Promise<string> =>
  renderTable(
    [
      { title: 'WHY', of: (trigger) => TRIGGER_NAME[trigger] },
      { title: 'TRANCHES', of: (trigger) => grouped(tranches.by_trigger[trigger]), right: true },
      { title: 'MEANING', of: (trigger) => TRIGGER_MEANING[trigger] },
    ],
    TRIGGERS.filter((trigger) => tranches.by_trigger[trigger] > 0),
  )

function deeds({ partner }: Account): string {
  const rows: [string, number, string][] = [
    ['polled', partner.polls, `once every ${PASS_EVERY_MS / MINUTE_MS} simulated minutes`],
    ['was handed', partner.delivered, 'instructions, each with its own lease'],
    ['filled', partner.filled, 'for the whole amount'],
    ['part-filled', partner.partial, 'the rest went back to the window'],
    ['failed', partner.failed, 'all of it went back'],
    ['kept silent on', partner.silent, `past the ${LEASE_MS / MINUTE_MS} minutes of the lease`],
    ['was handed again', partner.redelivered, 'same execution, same idempotency key, a new lease'],
    ['confirmed twice', partner.replayed, 'as if the answer was lost: replayed, no second trade'],
    ['confirmed too late', partner.refused_late, 'the plan had just been cancelled: refused with 409'],
  ]
  const width = Math.max(...rows.map(([, count]) => grouped(count).length))
  const table = renderFields(
    Object.fromEntries(
      rows.map(([name, count, text]) => [name, `${grouped(count).padStart(width)}: ${text}`]),
    ),
  )
  const ended =
    `One plan was cancelled and one user disabled on the way: ` +
    `${counted(partner.cancelled_by_service, 'open execution')} cancelled, ` +
    `${counted(partner.late_fills_kept, 'late fill')} kept for an operator to decide on.`
  return `${table}\n\n${paragraph(ended)}`
}

const PRICE_COLUMNS: Column<PriceComparison>[] = [
  { title: 'EVERY', of: (row) => row.frequency },
  { title: 'WINDOWS', of: (row) => row.windows, right: true },
  { title: 'PAID', of: (row) => toCents(row.average_price_usd), right: true },
  { title: 'SPREAD EVENLY', of: (row) => grouped(row.even_price_usd), right: true },
  { title: 'MEAN', of: (row) => basisPoints(row.mean_bp), right: true },
  { title: 'WORST', of: (row) => basisPoints(row.worst_bp), right: true },
]

/** A price as people read it; the account has every place of it. */
const toCents = (price: string): string => grouped(formatUsd(roundToCents(usd(price), 1n)))

const basisPoints = (value: number): string => `${value > 0 ? '+' : ''}${value.toFixed(1)} bp`

async function prices(account: Account): Promise<string> {
  const table = await renderTable(PRICE_COLUMNS, account.prices)
  const caution =
    'USD for one bitcoin over the windows that ran their course; mean and worst of single windows in basis points, ' +
    'above zero is cheaper. This is one synthetic path and proves nothing about returns. What to expect of the ' +
    'timing is about the price of buying evenly, and no window missed.'
  return `${table}\n\n${paragraph(caution)}`
}

function ledger({ ledger: seen }: Account, paint: Paint): string {
  const verdict = seen.ok ? paint('green', 'It adds up.') : paint('red', 'It does not add up.')
  const work =
    `Recomputed from ${counted(seen.executions, 'execution')} and ${counted(seen.trades, 'trade')}: what every one of ` +
    `${counted(seen.windows, 'window')} reserved, spent and released, against its budget; each execution against its ` +
    `trade, each trade against its digest, and the file itself: ${counted(seen.faults.length, 'fault')}.`
  const books = [
    renderFields({
      'the ledger': `${grouped(seen.spent_usd)} USD for ${seen.bought_btc} BTC, ${grouped(seen.reserved_usd)} USD still reserved`,
      "the partner's book": `${grouped(seen.partner_book_usd)} USD for ${seen.partner_book_btc} BTC`,
    }),
  ]
  if (seen.average_price_usd) books.push(`On average ${toCents(seen.average_price_usd)} USD for one bitcoin.`)
  const faults = seen.faults.map(({ kind, subject, message }) => `${kind}: ${subject}: ${message}`)
  return [verdict, paragraph(work), ...books, ...(faults.length > 0 ? [faults.join('\n')] : [])].join('\n\n')
}

function nextSteps({ commands, file }: ShowOptions, paint: Paint): string {
  const steps = commands.map(({ what, command }) => `${paint('dim', `# ${what}`)}\n${command}`)
  if (file !== null) steps.push(`The database of this run was kept: ${file}`)
  return steps.join('\n\n')
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0)

const sumUsd = (windows: readonly WindowAccount[], column: 'spent_usd' | 'left_usd'): string =>
  formatUsd(windows.reduce((total, window) => (total + usd(window[column])) as Usd, ZERO_USD))

const LINE_MAX = 79

const paragraph = (text: string): string => wrapped(text, LINE_MAX).join('\n')
