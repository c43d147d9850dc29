// The account in words and tables that fit an 80-column terminal, and the commands to go on with.

import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { isSea } from 'node:sea'
import { LEASE_MS } from '../../core/execution.ts'
import { printUsd, roundToCents, type Usd, usd, ZERO_USD } from '../../core/money.ts'
import { counted, grouped, quoted } from '../../core/text.ts'
import { DAY_MS, MINUTE_MS } from '../../core/time.ts'
import { holdsSecret, isServer, shownAddress } from '../../store/address.ts'
import { onDatabase } from '../command.ts'
import { DATABASE_DEFAULT } from '../options.ts'
import { type Paint, renderFields, renderTable, wrapped } from '../terminal.ts'
import type { Account } from './account.ts'
import { DAYS, PASS_EVERY_MS, START, WEEKS } from './play.ts'

/** The output of `demo --json`. The database is null when it is gone. */
export type Printed = Account & { database: string | null; commands: ReturnType<typeof nextCommands> }

export async function showAccount(account: Printed, paint: Paint): Promise<string> {
  const { seed, from, to, scheduler, commands, database } = account
  const steps = commands.map(({ what, command }) => `${paint('dim', `# ${what}`)}\n${command}`)
  if (database !== null) steps.push(`The database of this run was kept: ${database}`)
  const sections = {
    [`${WEEKS} weeks of recurring purchases, ${date(from)} to ${date(to)}`]: paragraph(
      `The service, its HTTP API and its database are the real ones; the prices are synthetic (seed ${seed}), ` +
        `the partner is simulated, and time runs fast. The scheduler ran ${counted(scheduler.passes, 'tick')}, ` +
        `${scheduler.passes_without_price} of them without a price because the feed was down; ` +
        `${scheduler.passes_missed} did not run because cron was down.`,
    ),
    'What each window spent of its budget': await budgets(account, paint),
    'Why tranches fired': await triggers(account),
    'What the partner did': await partnerActivity(account),
    'What was paid, beside the time-weighted mean of the same windows': await prices(account),
    'The ledger': ledger(account, paint),
    'Run it for real': steps.join('\n\n'),
  }
  return Object.entries(sections)
    .map(([title, body]) => `${paint('bold', title)}\n\n${body}`)
    .join('\n\n\n')
}

async function budgets({ plans }: Account, paint: Paint): Promise<string> {
  const windows = plans.flatMap((plan) =>
    plan.windows.map((window) => ({ ...window, name: plan.partner_plan_id })),
  )
  const short = windows.filter(({ left_because }) => left_because !== null)
  const table = await renderTable(
    [
      { title: 'PLAN', of: (plan) => plan.partner_plan_id },
      { title: 'BUDGET', of: (plan) => printUsd(usd(plan.amount_usd)), right: true },
      {
        title: Array.from({ length: WEEKS }, (_, week) => `WEEK ${week + 1}`).join(' '),
        of: (plan) => strip(plan, paint),
      },
      { title: 'SPENT', of: (plan) => sumUsd(plan.windows.map((one) => one.spent_usd)), right: true },
      { title: 'LEFT', of: (plan) => sumUsd(plan.windows.map((one) => one.left_usd)), right: true },
      {
        title: 'TRANCHES',
        of: (plan) => plan.windows.reduce((total, { tranches }) => total + tranches, 0),
        right: true,
      },
    ],
    plans,
  )
  const summary = paragraph(
    'One column a day, as high as the share spent; a full block is the whole budget, to the cent. ' +
      `${windows.length - short.length} of ${counted(windows.length, 'window')} spent all of it.`,
  )
  if (short.length === 0) return `${table}\n\n${summary}`
  const shortTable = await renderTable(
    [
      { title: 'WINDOW', of: ({ name, window_start }) => `${name}, ${date(window_start)}` },
      { title: 'SPENT', of: ({ spent_usd }) => grouped(spent_usd), right: true },
      { title: 'LEFT', of: ({ left_usd }) => grouped(left_usd), right: true },
      { title: 'BECAUSE', of: ({ left_because }) => left_because },
    ],
    short,
  )
  return `${table}\n\n${summary}\n\n${shortTable}`
}

/** One column a day: each window's share spent, over the days it covers. */
function strip({ windows }: Account['plans'][number], paint: Paint): string {
  const cells = Array.from({ length: DAYS }, () => ' ')
  const dayOf = (instant: string): number => Math.round((Date.parse(instant) - START) / DAY_MS)
  for (const { window_start, window_end, spent_usd, budget_usd } of windows) {
    const [spent, budget] = [usd(spent_usd), usd(budget_usd)]
    // A full block only for the whole budget, a dot only for nothing.
    const height = spent === 0n ? '·' : ('▁▂▃▄▅▆▇'[Number((spent * 7n) / budget)] ?? '█')
    cells.fill(paint(spent === budget ? 'green' : 'yellow', height), dayOf(window_start), dayOf(window_end))
  }
  return cells.join('')
}

const triggers = ({ tranches: { by_trigger: fired } }: Account): Promise<string> =>
  countTable('TRIGGER', [
    ['slot start', fired.slot_start, "a slot began: its first unit, at the slot's first price"],
    ['limit', fired.limit, "the price fell to the next unit's reservation price"],
    ['deadline', fired.deadline, 'the end of a slot that had units left'],
    ['catch-up', fired.catch_up, 'the scheduler had missed whole slots'],
    ['failsafe', fired.failsafe, "the window's end came near: everything left, at once"],
    ['clock', fired.clock, 'there was no live price: spread evenly over the slot'],
  ])

async function partnerActivity({ partner }: Account): Promise<string> {
  const table = await countTable('THE PARTNER', [
    ['polled', partner.polls, `once every ${PASS_EVERY_MS / MINUTE_MS} simulated minutes`],
    ['received', partner.delivered, 'instructions, each with its own lease'],
    ['filled', partner.filled, 'for the whole amount'],
    ['part-filled', partner.partial, 'the rest went back to the window'],
    ['failed', partner.failed, 'all of it went back'],
    ['kept silent', partner.silent, `past the ${LEASE_MS / MINUTE_MS} minutes of the lease`],
    ['received again', partner.redelivered, 'same execution, same idempotency key, a new lease'],
    ['confirmed twice', partner.replayed, 'as if the answer was lost: replayed, no second trade'],
    ['confirmed too late', partner.refused_late, 'the plan had just been cancelled: refused with 409'],
  ])
  const ended =
    'One plan was cancelled and one user disabled on the way: ' +
    `${counted(partner.cancelled_by_service, 'open execution')} cancelled, ` +
    `${counted(partner.late_fills_kept, 'late fill')} kept for an operator to decide on.`
  return `${table}\n\n${paragraph(ended)}`
}

const countTable = (title: string, rows: [name: string, count: number, meaning: string][]) =>
  renderTable(
    [
      { title, of: ([name]) => name },
      { title: 'TIMES', of: ([, count]) => grouped(count), right: true },
      { title: 'MEANING', of: ([, , meaning]) => meaning },
    ],
    rows,
  )

async function prices(account: Account): Promise<string> {
  const basisPoints = (value: number): string => `${value > 0 ? '+' : ''}${value.toFixed(1)} bp`
  const table = await renderTable(
    [
      { title: 'EVERY', of: (row) => row.frequency },
      { title: 'WINDOWS', of: (row) => row.windows, right: true },
      { title: 'PAID', of: (row) => printUsd(roundToCents(usd(row.average_price_usd), 1n)), right: true },
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
    `trade, each trade against its checksum, and the file itself: ${counted(proof.faults.length, 'fault')}.`
  const books = renderFields({
    'the ledger': `${grouped(proof.spent_usd)} USD for ${proof.bought_btc} BTC, ${grouped(proof.reserved_usd)} USD still reserved`,
    "the partner's book": `${grouped(proof.partner_book_usd)} USD for ${proof.partner_book_btc} BTC`,
  })
  const verdict = proof.ok ? paint('green', 'It adds up.') : paint('red', 'It does not add up.')
  const parts = [verdict, paragraph(work), books]
  const faults = proof.faults.map(({ kind, subject, message }) => `${kind}: ${subject}: ${message}`)
  if (faults.length > 0) parts.push(faults.join('\n'))
  return parts.join('\n\n')
}

const sumUsd = (amounts: readonly string[]): string =>
  printUsd(amounts.reduce((total, amount) => (total + usd(amount)) as Usd, ZERO_USD))

const DATE = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', day: 'numeric', month: 'short' })
const date = (instant: string): string => DATE.format(Date.parse(instant))

const paragraph = (text: string): string => wrapped(text, 79).join('\n')

// The commands that do the demonstration's work for real, named as this program was started.

/** As the person would type it, and for cron, which has no working directory and a short PATH. */
type ProgramName = { typed: string; absolute: string }

export const started = () => ({
  argv0: process.argv0,
  execPath: process.execPath,
  script: process.argv[1] ?? '',
  cwd: process.cwd(),
  built: isSea(),
})

/**
 * The executable, under the name by which it was called; from a checkout, the starter beside the running script,
 * because the starter's own name is no longer among the process's arguments.
 */
export function programName(start: ReturnType<typeof started>): ProgramName {
  const { argv0, execPath, script, cwd, built } = start
  if (built) return { typed: argv0, absolute: execPath }
  const absolute = join(dirname(resolve(cwd, script)), 'tranche')
  const near = relative(cwd, absolute)
  if (near.startsWith('..') || isAbsolute(near)) return { typed: absolute, absolute }
  // Without a slash a shell would look for it along the PATH.
  return { typed: near.includes('/') ? near : `./${near}`, absolute }
}

/** In the order of typing, in one folder and one shell: later ones rely on variables set by earlier ones. */
export function nextCommands({ typed, absolute }: ProgramName, { db, cwd }: { db: string; cwd: string }) {
  const tranche = db === DATABASE_DEFAULT ? quoted(typed) : onDatabase(quoted(typed), db)
  const post = (route: string, body: string) =>
    `curl -sS "$TRANCHE_URL/partner/v1/${route}" -H "$AUTH" -d '{\n  ${body.replaceAll(', ', ',\n  ')}}'`
  const commands = {
    'Serve the API (in a shell of its own)': [`${tranche} serve`],
    'Add a partner and a key, which is shown only once': [
      `${tranche} partner create acme --name Acme`,
      `KEY=$(${tranche} key create acme --env test)`,
    ],
    'As the partner: link a user who consented, give them a plan': [
      'TRANCHE_URL=http://127.0.0.1:8080 AUTH="Authorization: Bearer $KEY"',
      post(
        'users',
        '"partner_user_id": "u1", "consent_accepted": true, "consent_version": "v1", "consent_timestamp": "2026-01-05"',
      ),
      post(
        'plans',
        '"partner_user_id": "u1", "partner_plan_id": "p1", "amount_usd": "60.00", "frequency": "daily"',
      ),
    ],
    'One tick of the scheduler, here with a given price; poll for what is due': [
      `${tranche} tick --price 64000`,
      'DUE=$(curl -sS "$TRANCHE_URL/partner/v1/executions/due" -H "$AUTH"); echo "$DUE"',
    ],
    'Buy it on your venue, then report': [
      `ID=$(echo "$DUE" | grep -o 'exec_[0-9a-f]*')`,
      // A sixth of the plan's 60.00: the first of a day's six tranches.
      post(
        'executions/$ID/confirm',
        '"partner_order_id": "o1", "status": "filled", "usd_amount": "10.00", "btc_amount": "0.00015625", "execution_price": "64000"',
      ),
    ],
    'Have cron run a tick every minute (crontab -e)': [
      crontab(absolute, isServer(db) ? db : resolve(cwd, db)),
    ],
  }
  return Object.entries(commands).map(([what, lines]) => ({ what, command: lines.join('\n') }))
}

function crontab(program: string, db: string): string {
  const setting = holdsSecret(db) ? `TRANCHE_DB=${shownAddress(db)}\n` : ''
  const tick = `${quoted(program)}${setting ? '' : ` --db ${quoted(db)}`} tick`
  // In a crontab an unescaped percent sign ends the line.
  return `${setting}* * * * * ${tick.replaceAll('%', '\\%')} 2>&1 | logger -t tranche --socket-errors=on`
}
