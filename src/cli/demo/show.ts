// The account in words, tables and drawings that fit an 80-column terminal, and the commands to go on with.

import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { isSea } from 'node:sea'
import { type ExecutionStatus, LEASE_MS, TRIGGERS, type Trigger } from '../../core/execution.ts'
import { formatUsd, roundToCents, type Usd, usd, ZERO_USD } from '../../core/money.ts'
import { counted, grouped, quoted } from '../../core/text.ts'
import { DAY_MS, MINUTE_MS } from '../../core/time.ts'
import { holdsSecret, isServer, shownAddress } from '../../store/address.ts'
import { onDatabase } from '../command.ts'
import type { Streams } from '../context.ts'
import { DATABASE_DEFAULT } from '../options.ts'
import { TRIGGER_NAME } from '../purchases/execution.ts'
import { createPaint, type Paint, renderFields, renderTable, type Style, wrapped } from '../terminal.ts'
import { type Account, TIMELINE_COLUMNS, type Timeline } from './account.ts'
import { DAYS, PASS_EVERY_MS, START, WEEKS } from './storyline.ts'

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
  return `${paint('bold', `${WEEKS} weeks of recurring purchases, ${date(from)} to ${date(to)}`)}\n\n${paragraph(text)}`
}

async function budgets({ plans }: Account, paint: Paint): Promise<string> {
  const windows = plans.flatMap((plan) => plan.windows.map((window) => ({ plan, window })))
  const short = windows.filter(({ window }) => window.left_because !== null)
  const summary =
    `One column a day, as high as the share spent; a full block is the whole budget, to the cent. ` +
    `${grouped(windows.length - short.length)} of ${counted(windows.length, 'window')} spent all of it.`
  const parts = [
    await renderTable(
      [
        { title: 'PLAN', of: (plan) => plan.partner_plan_id },
        { title: 'BUDGET', of: (plan) => grouped(plan.amount_usd), right: true },
        {
          title: Array.from({ length: WEEKS }, (_, week) => `WEEK ${week + 1}`).join(' '),
          of: (plan) => strip(plan, paint),
        },
        { title: 'SPENT', of: ({ windows }) => sumUsd(windows.map((one) => one.spent_usd)), right: true },
        { title: 'LEFT', of: ({ windows }) => sumUsd(windows.map((one) => one.left_usd)), right: true },
        {
          title: 'TRANCHES',
          of: ({ windows }) => windows.reduce((total, { tranches }) => total + tranches, 0),
          right: true,
        },
      ],
      plans,
    ),
    paragraph(summary),
  ]
  if (short.length > 0)
    parts.push(
      await renderTable(
        [
          {
            title: 'WINDOW',
            of: ({ plan, window }) => `${plan.partner_plan_id}, ${date(window.window_start)}`,
          },
          { title: 'SPENT', of: ({ window }) => grouped(window.spent_usd), right: true },
          { title: 'LEFT', of: ({ window }) => grouped(window.left_usd), right: true },
          { title: 'BECAUSE', of: ({ window }) => window.left_because },
        ],
        short.slice(0, LISTED_MAX),
      ),
    )
  if (short.length > LISTED_MAX) parts.push(`and ${short.length - LISTED_MAX} more: see --json`)
  return parts.join('\n\n')
}

/** One column a day: each window's share spent, over the days it covers. */
function strip({ windows }: Account['plans'][number], paint: Paint): string {
  const cells = Array.from({ length: DAYS }, () => ' ')
  const dayOf = (instant: string): number => Math.round((Date.parse(instant) - START) / DAY_MS)
  for (const { window_start, window_end, spent_usd, budget_usd } of windows) {
    const [spent, budget] = [usd(spent_usd), usd(budget_usd)]
    const cell = paint(spent === budget ? 'green' : 'yellow', spent === 0n ? '·' : heightOf(spent, budget))
    cells.fill(cell, dayOf(window_start), dayOf(window_end))
  }
  return cells.join('')
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
  const fields = rows.map(([name, count, text]) => [name, `${grouped(count).padStart(width)}: ${text}`])
  const ended =
    `One plan was cancelled and one user disabled on the way: ` +
    `${counted(partner.cancelled_by_service, 'open execution')} cancelled, ` +
    `${counted(partner.late_fills_kept, 'late fill')} kept for an operator to decide on.`
  return `${renderFields(Object.fromEntries(fields))}\n\n${paragraph(ended)}`
}

/** A price as people read it; the account has every place of it. */
const toCents = (price: string): string => grouped(formatUsd(roundToCents(usd(price), 1n)))

const basisPoints = (value: number): string => `${value > 0 ? '+' : ''}${value.toFixed(1)} bp`

async function prices(account: Account): Promise<string> {
  const table = await renderTable(
    [
      { title: 'EVERY', of: (row) => row.frequency },
      { title: 'WINDOWS', of: (row) => row.windows, right: true },
      { title: 'PAID', of: (row) => toCents(row.average_price_usd), right: true },
      { title: 'SPREAD EVENLY', of: (row) => grouped(row.even_price_usd), right: true },
      { title: 'MEAN', of: (row) => basisPoints(row.mean_bp), right: true },
      { title: 'WORST', of: (row) => basisPoints(row.worst_bp), right: true },
    ],
    account.prices,
  )
  const caution =
    'USD for one bitcoin over the windows that ran their course; mean and worst of single windows in basis points, ' +
    'above zero is cheaper. The daily mean is mostly chance: small budgets are bought in few pieces, so seeds end on ' +
    'both sides of zero, and about as far from it without the failures and the dead feed. This is one synthetic path ' +
    'and proves nothing about returns. What to expect of the timing is about the price of buying evenly, and no ' +
    'window missed.'
  return `${table}\n\n${paragraph(caution)}`
}

function ledger({ ledger: proof }: Account, paint: Paint): string {
  const work =
    `Recomputed from ${counted(proof.executions, 'execution')} and ${counted(proof.trades, 'trade')}: what every one of ` +
    `${counted(proof.windows, 'window')} reserved, spent and released, against its budget; each execution against its ` +
    `trade, each trade against its digest, and the file itself: ${counted(proof.faults.length, 'fault')}.`
  const parts = [
    proof.ok ? paint('green', 'It adds up.') : paint('red', 'It does not add up.'),
    paragraph(work),
    renderFields({
      'the ledger': `${grouped(proof.spent_usd)} USD for ${proof.bought_btc} BTC, ${grouped(proof.reserved_usd)} USD still reserved`,
      "the partner's book": `${grouped(proof.partner_book_usd)} USD for ${proof.partner_book_btc} BTC`,
    }),
  ]
  if (proof.average_price_usd)
    parts.push(`On average ${toCents(proof.average_price_usd)} USD for one bitcoin.`)
  if (!proof.faults.length) return parts.join('\n\n')
  const faults = proof.faults.map(({ kind, subject, message }) => `${kind}: ${subject}: ${message}`)
  return [...parts, faults.join('\n')].join('\n\n')
}

function nextSteps({ commands, file }: ShowOptions, paint: Paint): string {
  const steps = commands.map(({ what, command }) => `${paint('dim', `# ${what}`)}\n${command}`)
  if (file !== null) steps.push(`The database of this run was kept: ${file}`)
  return steps.join('\n\n')
}

const sumUsd = (amounts: readonly string[]): string =>
  grouped(formatUsd(amounts.reduce((total, amount) => (total + usd(amount)) as Usd, ZERO_USD)))

// Days as the account writes them, all in UTC.

const inUtc = (options: Intl.DateTimeFormatOptions) => {
  const format = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...options })
  return (instant: string, daysOn = 0): string => format.format(Date.parse(instant) + daysOn * DAY_MS)
}
const date = inUtc({ day: 'numeric', month: 'short' })
const weekday = inUtc({ weekday: 'short' })
const dayOfMonth = inUtc({ day: 'numeric' })

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
  const { partner_plan_id, frequency, window_start, window_end, budget_usd, spent_usd, tranches } = timeline
  const end = frequency === 'daily' ? '' : ` to ${date(window_end)}`
  const start = `${frequency === 'daily' ? `${weekday(window_start)} ` : ''}${date(window_start)}`
  const spent = `${grouped(spent_usd)} of ${grouped(budget_usd)} USD in ${counted(tranches.length, 'tranche')}`
  return `${paint('bold', partner_plan_id)}  ${start}${end}: ${spent}`
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

const columnOf = ({ position }: Timeline['tranches'][number]): number =>
  Math.min(TIMELINE_COLUMNS - 1, Math.floor(position * TIMELINE_COLUMNS))

/** A day by its quarters, a week by its days. */
function axis({ frequency, window_start }: Timeline, paint: Paint): string[] {
  const labels =
    frequency === 'daily'
      ? ['00:00', '06:00', '12:00', '18:00']
      : Array.from(
          { length: 7 },
          (_, day) => `${weekday(window_start, day)} ${dayOfMonth(window_start, day)}`,
        )
  const line = Array.from({ length: TIMELINE_COLUMNS }, () => '─')
  const text = Array.from({ length: TIMELINE_COLUMNS }, () => ' ')
  labels.forEach((label, index) => {
    const column = Math.round((index * TIMELINE_COLUMNS) / labels.length)
    line[column] = '┬'
    text.splice(column, label.length, ...label)
  })
  const edged = (cells: string[], edge: string) =>
    paint('dim', row('', cells.join(''), { paint, edge }).trimEnd())
  return [edged(line, '└'), edged(text, ' ')]
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

/** In the order in which they are typed, in one folder and one shell: later ones rely on what earlier ones set. */
export function nextCommands(
  { typed, absolute }: ProgramName,
  { db, cwd }: { db: string; cwd: string },
): NextCommand[] {
  const tranche = db === DATABASE_DEFAULT ? quoted(typed) : onDatabase(quoted(typed), db)
  const post = (route: string, body: string) =>
    `curl -sS "$TRANCHE_URL/partner/v1/${route}" -H "$AUTH" -d '{\n  ${body.replaceAll(', ', ',\n  ')}}'`
  return [
    { what: 'Serve the API (in a shell of its own)', command: `${tranche} serve` },
    {
      what: 'Add a partner and a key, which is shown only once',
      command: `${tranche} partner create acme --name Acme\nKEY=$(${tranche} key create acme --env test)`,
    },
    {
      what: 'As the partner: link a user who consented, give them a plan',
      command: `TRANCHE_URL=http://127.0.0.1:8080 AUTH="Authorization: Bearer $KEY"
${post('users', '"partner_user_id": "u1", "consent_accepted": true, "consent_version": "v1", "consent_timestamp": "2026-01-05"')}
${post('plans', '"partner_user_id": "u1", "partner_plan_id": "p1", "amount_usd": "60.00", "frequency": "daily"')}`,
    },
    {
      what: 'One tick of the scheduler, here with a price given by hand; take what is due',
      command: `${tranche} tick --price 64000
DUE=$(curl -sS "$TRANCHE_URL/partner/v1/executions/due" -H "$AUTH"); echo "$DUE"`,
    },
    {
      what: 'Buy it on your venue, then report',
      // A sixth of the plan's 60.00: the first of a day's six tranches.
      command: `ID=$(echo "$DUE" | grep -o 'exec_[0-9a-f]*')
${post('executions/$ID/confirm', '"partner_order_id": "o1", "status": "filled", "usd_amount": "10.00", "btc_amount": "0.00015625", "execution_price": "64000"')}`,
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
