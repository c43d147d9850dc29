// The account in words, tables and drawings that fit an 80-column terminal, and the commands to go on with.

import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { isSea } from 'node:sea'
import { type ExecutionStatus, LEASE_MS, TRIGGERS, type Trigger } from '../../core/execution.ts'
import { formatUsd, roundToCents, type Usd, usd, ZERO_USD } from '../../core/money.ts'
import { unreachable } from '../../core/problem.ts'
import { counted, grouped, quoted } from '../../core/text.ts'
import { DAY_MS, type Instant, MINUTE_MS, parseInstant } from '../../core/time.ts'
import { holdsSecret, isServer, shownAddress } from '../../store/address.ts'
import { onDatabase } from '../command.ts'
import type { Streams } from '../context.ts'
import { DATABASE_DEFAULT } from '../options.ts'
import { TRIGGER_NAME } from '../purchases/execution.ts'
import {
  type Column,
  createPaint,
  type Paint,
  renderFields,
  renderTable,
  type Style,
  wrapped,
} from '../terminal.ts'
import type { Account, PlanAccount, PriceComparison, WindowAccount } from './account.ts'
import { TIMELINE_COLUMNS, type Timeline, type TimelineTranche } from './play.ts'
import { DAYS, dayOfMonth, PASS_EVERY_MS, shortDate, WEEKS, weekday } from './storyline.ts'

type ShowOptions = {
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
    ['What the partner did', partnerActivity(account)],
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
      { title: 'TRIGGER', of: (trigger) => TRIGGER_NAME[trigger] },
      { title: 'TRANCHES', of: (trigger) => grouped(tranches.by_trigger[trigger]), right: true },
      { title: 'MEANING', of: (trigger) => TRIGGER_MEANING[trigger] },
    ],
    TRIGGERS.filter((trigger) => tranches.by_trigger[trigger] > 0),
  )

function partnerActivity({ partner }: Account): string {
  const rows: [string, number, string][] = [
    ['polled', partner.polls, `once every ${PASS_EVERY_MS / MINUTE_MS} simulated minutes`],
    ['was handed', partner.delivered, 'instructions, each with its own lease'],
    ['filled', partner.filled, 'for the whole amount'],
    ['part-filled', partner.partial, 'the rest went back to the window'],
    ['failed', partner.failed, 'all of it went back'],
    ['kept silent on', partner.silent, `past the ${LEASE_MS / MINUTE_MS} minutes of the lease`],
    ['was delivered again', partner.redelivered, 'same execution, same idempotency key, a new lease'],
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

function ledger({ ledger: proof }: Account, paint: Paint): string {
  const verdict = proof.ok ? paint('green', 'It adds up.') : paint('red', 'It does not add up.')
  const work =
    `Recomputed from ${counted(proof.executions, 'execution')} and ${counted(proof.trades, 'trade')}: what every one of ` +
    `${counted(proof.windows, 'window')} reserved, spent and released, against its budget; each execution against its ` +
    `trade, each trade against its digest, and the file itself: ${counted(proof.faults.length, 'fault')}.`
  const books = [
    renderFields({
      'the ledger': `${grouped(proof.spent_usd)} USD for ${proof.bought_btc} BTC, ${grouped(proof.reserved_usd)} USD still reserved`,
      "the partner's book": `${grouped(proof.partner_book_usd)} USD for ${proof.partner_book_btc} BTC`,
    }),
  ]
  if (proof.average_price_usd)
    books.push(`On average ${toCents(proof.average_price_usd)} USD for one bitcoin.`)
  const faults = proof.faults.map(({ kind, subject, message }) => `${kind}: ${subject}: ${message}`)
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

// A window over time: its prices, and under them a lane for each reason to fire.

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

function drawTimeline(timeline: Timeline, paint: Paint): string {
  const lanes = TRIGGERS.filter((trigger) => timeline.tranches.some((tranche) => tranche.trigger === trigger))
  return [
    title(timeline, paint),
    ...priceRows(timeline.prices_usd, paint),
    row('', paint('dim', '─'.repeat(TIMELINE_COLUMNS)), { paint, edge: '├' }),
    ...lanes.map((trigger) => lane(timeline, trigger, paint)),
    spentLane(timeline, paint),
    ...axis(timeline, paint),
  ].join('\n')
}

/** What each mark stands for, of those that occur. */
function legend(timelines: readonly Timeline[], paint: Paint): string {
  const shown = new Set(timelines.flatMap(({ tranches }) => tranches.map(({ status }) => status)))
  return MARK_ORDER.filter((status) => shown.has(status))
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
  const cells = Array.from({ length: TIMELINE_COLUMNS }, (_, column) => {
    const here = own.filter((tranche) => columnOf(tranche) === column).map(({ status }) => status)
    const shown = MARK_ORDER.findLast((status) => here.includes(status))
    return shown ? paint(MARK[shown].style, MARK[shown].glyph) : ' '
  })
  return row(TRIGGER_NAME[trigger], cells.join(''), { paint, end: String(own.length).padStart(3) })
}

/** How much of the budget is spent by the end of each column, going by when its tranches fired. */
function spentLane({ tranches, budget_usd }: Timeline, paint: Paint): string {
  const budget = usd(budget_usd)
  const cells = Array.from({ length: TIMELINE_COLUMNS }, (_, column) => {
    const spent = tranches
      .filter((tranche) => columnOf(tranche) <= column)
      .reduce((sum, tranche) => (sum + usd(tranche.spent_usd)) as Usd, ZERO_USD)
    return heightOf(spent, budget)
  })
  return row('spent', paint('cyan', cells.join('')), { paint })
}

/** A full block only for the whole budget, a blank only for nothing. */
function heightOf(spent: Usd, budget: Usd): string {
  if (spent === ZERO_USD) return ' '
  if (spent >= budget) return '█'
  return EIGHTHS[1 + Number((spent * 7n) / budget)] ?? '█'
}

const columnOf = ({ position }: TimelineTranche): number =>
  Math.min(TIMELINE_COLUMNS - 1, Math.floor(position * TIMELINE_COLUMNS))

function axis(timeline: Timeline, paint: Paint): string[] {
  const labels = axisLabels(timeline)
  const line = Array.from({ length: TIMELINE_COLUMNS }, () => '─')
  const text = Array.from({ length: TIMELINE_COLUMNS }, () => ' ')
  labels.forEach((label, index) => {
    const column = Math.round((index * TIMELINE_COLUMNS) / labels.length)
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

// The commands that do the demonstration's work for real, named as this very program was started.

type ProgramName = {
  /** As the person would type it again. */
  typed: string
  /** For cron, which knows no working directory and little of a PATH. */
  absolute: string
}

export type NextCommand = { what: string; command: string }

/** The parts of a process that show how it was started. */
export type Started = { argv0: string; execPath: string; script: string; cwd: string; built: boolean }

const CHECKOUT_STARTER = 'tranche'

/**
 * The executable, under the name by which it was called; from a checkout, the starter beside the running script,
 * because the starter's own name is no longer among the process's arguments.
 */
export function programName({ argv0, execPath, script, cwd, built }: Started): ProgramName {
  if (built) return { typed: argv0, absolute: execPath }
  const absolute = join(dirname(resolve(cwd, script)), CHECKOUT_STARTER)
  const near = relative(cwd, absolute)
  if (near.startsWith('..') || isAbsolute(near)) return { typed: absolute, absolute }
  // Without a slash a shell would look for it along the PATH.
  return { typed: near.includes('/') ? near : `./${near}`, absolute }
}

export const started = (): Started => ({
  argv0: process.argv0,
  execPath: process.execPath,
  script: process.argv[1] ?? '',
  cwd: process.cwd(),
  built: isSea(),
})

const SERVICE_URL = 'http://127.0.0.1:8080'
const USER = {
  partner_user_id: 'u1',
  consent_accepted: true,
  consent_version: 'v1',
  consent_timestamp: '2026-01-05',
}
const PLAN = { partner_user_id: 'u1', partner_plan_id: 'p1', amount_usd: '60.00', frequency: 'daily' }
const PRICE_USD = '64000'
/** A sixth of the plan's 60.00: the first of a day's six tranches. */
const FILL = {
  partner_order_id: 'o1',
  status: 'filled',
  usd_amount: '10.00',
  btc_amount: '0.00015625',
  execution_price: PRICE_USD,
}

/** In the order in which they are typed, in one folder and one shell: later ones rely on what earlier ones set. */
export function nextCommands(
  { typed, absolute }: ProgramName,
  { db, cwd }: { db: string; cwd: string },
): NextCommand[] {
  const tranche = db === DATABASE_DEFAULT ? quoted(typed) : onDatabase(quoted(typed), db)
  return [
    { what: 'Serve the API (in a shell of its own)', command: `${tranche} serve` },
    {
      what: 'Add a partner and a key, which is shown only once',
      command: `${tranche} partner create acme --name Acme\nKEY=$(${tranche} key create acme --env test)`,
    },
    {
      what: 'As the partner: link a user who consented, give them a plan',
      command: [
        `TRANCHE_URL=${SERVICE_URL} AUTH="Authorization: Bearer $KEY"`,
        `curl -sS "$TRANCHE_URL/partner/v1/users" -H "$AUTH" -d '${bodyText(USER)}'`,
        `curl -sS "$TRANCHE_URL/partner/v1/plans" -H "$AUTH" -d '${bodyText(PLAN)}'`,
      ].join('\n'),
    },
    {
      what: 'One tick of the scheduler, here with a price given by hand; take what is due',
      command: `${tranche} tick --price ${PRICE_USD}\nDUE=$(curl -sS "$TRANCHE_URL/partner/v1/executions/due" -H "$AUTH"); echo "$DUE"`,
    },
    {
      what: 'Buy it on your venue, then report',
      command: [
        `ID=$(echo "$DUE" | grep -o 'exec_[0-9a-f]*')`,
        `curl -sS "$TRANCHE_URL/partner/v1/executions/$ID/confirm" -H "$AUTH" -d '${bodyText(FILL)}'`,
      ].join('\n'),
    },
    {
      what: 'Have cron run a tick every minute (crontab -e)',
      command: crontab(absolute, isServer(db) ? db : resolve(cwd, db)),
    },
  ]
}

function crontab(program: string, db: string): string {
  const setting = holdsSecret(db) ? `TRANCHE_DB=${shownAddress(db)}\n` : ''
  const tick = `${quoted(program)}${setting ? '' : ` --db ${quoted(db)}`} tick`
  // In a crontab an unescaped percent sign ends the line.
  return `${setting}* * * * * ${tick.replaceAll('%', '\\%')} 2>&1 | logger -t tranche --socket-errors=on`
}

/** One member a line where they would not fit on one of a terminal's. */
const bodyText = (body: object): string =>
  `{\n  ${Object.entries(body)
    .map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`)
    .join(',\n  ')}}`
