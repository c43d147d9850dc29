// The base of the billing tests: a database whose months are written straight into it, sound enough to pass `check`,
// and the command line run in this process with a clock that the test sets.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Report, spentBy } from '../../src/core/confirmation.ts'
import type { ExecutionId } from '../../src/core/execution.ts'
import { btc, price, type Usd, usd } from '../../src/core/money.ts'
import type { Environment } from '../../src/core/partner.ts'
import type { Instant } from '../../src/core/time.ts'
import { machineAt, machine as presentMachine } from '../../src/machine.ts'
import { reportParams, tradeDigest } from '../../src/store/rows/ledger.ts'
import { type Database, openFile } from '../../src/store/sqlite/file/connection.ts'
import { layFresh, temporaryFolder } from '../support/database.ts'
import { addTrades } from '../support/large-database.ts'
import { type Outcome, runHere, type Surroundings } from '../support/service.ts'

export const utc = (...parts: Parameters<typeof Date.UTC>): Instant => Date.UTC(...parts) as Instant

/** A command line as one text, or as words where one of them has a blank. */
type Words = string | readonly string[]

export type Office = {
  folder: string
  file: string
  clock: () => Instant
  setClock: (now: Instant) => void
  /** Runs one command to its end. */
  tranche: (argv: Words, terminals?: Surroundings['terminals']) => Promise<Outcome>
  /** Runs one command that must succeed, and answers its stdout. */
  read: (argv: Words) => Promise<string>
  /** As read, parsed as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: an answer's JSON is what the test is about to check
  json: (argv: Words) => Promise<any>
  /** Writes the settings of invoices, and answers their file. */
  settings: (settings: unknown) => string
  enter: (slug: string, environment: Environment, entries: Iterable<Entry>) => void
  /** Runs SQL, as somebody with a shell would. */
  sql: (text: string) => void
}

/** Before every pass. */
const EVER = 1 as Instant

/** An empty database with the partners named in it, created at `now`. */
export async function openOffice(
  t: Pick<TestContext, 'after'>,
  now: Instant,
  partners: readonly string[] = ['acme'],
): Promise<Office> {
  const folder = temporaryFolder(t)
  const file = join(folder, 'tranche.db')
  const { machine, setClock } = machineAt(now)
  let passedAt: Instant | null = null
  // Cron runs as well: a pass has seen the present before anybody requests a report.
  const tranche: Office['tranche'] = async (argv, terminals = []) => {
    if (passedAt !== null && passedAt !== machine.clock()) await runHere(['--db', file, 'tick'], { machine })
    passedAt &&= machine.clock()
    const words = typeof argv === 'string' ? argv.split(' ') : argv
    return runHere(['--db', file, ...words], { machine, terminals })
  }
  const read: Office['read'] = async (argv) => {
    const { code, out, err } = await tranche(argv)
    assert.equal(code, 0, `${argv}: ${err}`)
    return out
  }
  const office: Office = {
    folder,
    file,
    clock: machine.clock,
    setClock,
    tranche,
    read,
    json: async (argv) => JSON.parse(await read(argv)),
    settings(settings) {
      const place = join(folder, 'billing.json')
      writeFileSync(place, typeof settings === 'string' ? settings : JSON.stringify(settings))
      return place
    },
    enter: (slug, environment, entries) => enterInto(file, { slug, environment }, entries),
    sql: (text) => open(file, (db) => db.exec(text)),
  }
  await layFresh(file)
  for (const slug of partners) await office.read(`partner create ${slug} --name ${slug}`)
  passedAt = EVER
  return office
}

/** Books the entries into a file that others may have open. */
export const enterInto = (file: string, tenant: Named, entries: Iterable<Entry>): void =>
  open(file, (db) => enter(db, tenant, entries))

function open<T>(file: string, work: (db: Database) => T): T {
  const db = openFile(file)
  try {
    db.pragma('busy_timeout = 5000')
    // For speed only: the tests run `check` over the written rows.
    db.pragma('foreign_keys = off')
    db.pragma('synchronous = off')
    db.pragma('cache_size = -262144')
    return work(db)
  } finally {
    db.close()
  }
}

export type Entry = {
  user: string
  at: Instant
  /** Without it the entry is a failed execution. */
  usd?: string
  btc?: string
  price?: string
  fee?: string
  status?: Report['status']
  order?: string
  executedAt?: Instant
  reason?: string
  plan?: string
}

type Named = { slug: string; environment: Environment }

let written = 0

/** Books trades with the executions, windows, plans and users behind them. The plans are over: nothing fires. */
function enter(db: Database, of: Named, entries: Iterable<Entry>): void {
  const tenant = tenantOf(db, of)
  const sql = prepare(db)
  const plans = new Map<string, Book>()
  db.transaction(() => {
    for (const entry of entries) {
      const name = entry.plan ?? `plan of ${entry.user}`
      const book = plans.get(name) ?? openBook(sql, { tenant, name, entry })
      plans.set(name, book)
      enterOne(sql, { tenant, book, entry })
    }
    for (const { window, spent } of plans.values()) sql.closeWindow.run({ window, spent })
  })()
}

function tenantOf(db: Database, { slug, environment }: Named): bigint {
  const sql = 'select tenant_id from tenants where partner_slug = ? and environment = ?'
  const tenant = db.prepare<[string, string], bigint>(sql).pluck().get(slug, environment)
  assert.ok(tenant !== undefined, `there is a tenant ${slug} ${environment}`)
  return tenant
}

type Book = { plan: bigint; user: bigint; window: bigint; start: Instant; next: number; spent: bigint }
type Statements = ReturnType<typeof prepare>

type Where = { tenant: bigint; name: string; entry: Entry }

function openBook(sql: Statements, { tenant, name, entry: { user, at } }: Where): Book {
  sql.user.run({ tenant, user, at })
  const userId = sql.findUser.get(tenant, user) as bigint
  // A later call continues the plan in a window of its own.
  const plan = (sql.findPlan.get(tenant, name) ?? sql.plan.get({ tenant, user: userId, name, at })) as bigint
  const start = (at - (written % 1000)) as Instant
  const window = sql.window.get({ plan, start, end: start + 1 }) as bigint
  return { plan, user: userId, window, start, next: 0, spent: 0n }
}

function enterOne(
  sql: Statements,
  { tenant, book, entry }: { tenant: bigint; book: Book; entry: Entry },
): void {
  const report = reportFor(entry)
  written += 1
  const executionId = `exec_${written.toString(16).padStart(32, '0')}` as ExecutionId
  const scope = { id: executionId, tenant, plan: book.plan, at: entry.at }
  const spent = spentBy(report)
  const amount = spent === 0n ? usd('10.00') : ((spent + 999_999n) / 1_000_000n) * 1_000_000n
  const { window, start, next } = book
  sql.execution.run({ ...scope, window, start, next, amount, status: report.status })
  const digest = tradeDigest({ executionId, recordedAt: entry.at, receivedAt: null, report })
  sql.trade.run({ ...scope, user: book.user, ...reportParams(report), digest })
  book.next += 1
  book.spent += spent
}

function reportFor(entry: Entry): Report {
  const common = { partnerOrderId: entry.order ?? `order-${written}`, executedAt: entry.executedAt ?? null }
  if (entry.usd === undefined) {
    const status = entry.status === 'cancelled' ? 'cancelled' : 'failed'
    return { status, ...common, failureReason: entry.reason ?? null }
  }
  return {
    status: entry.status === 'partial' ? 'partial' : 'filled',
    ...common,
    usdAmount: usd(entry.usd) as Usd,
    btcAmount: btc(entry.btc ?? '0.00100000'),
    executionPrice: price(entry.price ?? '60000.00'),
    partnerFee: entry.fee === undefined ? null : usd(entry.fee),
  }
}

const prepare = (db: Database) => ({
  user: db.prepare(
    `insert into users (tenant_id, partner_user_id, consent_version, consent_timestamp, status, created_at, updated_at)
     values (:tenant, :user, 'v1', :at, 'linked', :at, :at) on conflict do nothing`,
  ),
  findUser: db.prepare('select user_id from users where tenant_id = ? and partner_user_id = ?').pluck(),
  findPlan: db.prepare('select plan_id from plans where tenant_id = ? and partner_plan_id = ?').pluck(),
  plan: db
    .prepare(
      `insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled, start_date,
         status, created_at, updated_at)
       values (:tenant, :user, :name, 100000000, 'daily', 1, :at, 'cancelled', :at, :at) returning plan_id`,
    )
    .pluck(),
  window: db
    .prepare(
      `insert into windows (plan_id, window_start, window_end, budget, released, closed_at, close_reason)
       values (:plan, :start, :end, 1, 1, :start, 'cancelled') returning window_id`,
    )
    .pluck(),
  closeWindow: db.prepare(
    'update windows set budget = max(1, :spent), spent = :spent, released = max(1, :spent) - :spent where window_id = :window',
  ),
  execution: db.prepare(
    `insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
       trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at)
     values (:id, :tenant, :plan, :window, :start, :next, :amount, 'clock', 0, 1, :at, :status, 1, :at)`,
  ),
  trade: db.prepare(
    `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount, btc_amount,
       execution_price, partner_fee_usd, executed_at, failure_reason, recorded_at, digest)
     values (:id, :tenant, :plan, :user, :partner_order_id, :status, :usd_amount, :btc_amount, :execution_price,
       :partner_fee_usd, :executed_at, :failure_reason, :at, :digest)`,
  ),
})

/** An office with so many trades in March 2025, inserted by SQL: their digests would not pass `check`. */
export async function openMarch(t: Parameters<typeof openOffice>[0], trades: number): Promise<Office> {
  const office = await openOffice(t, utc(2025, 2))
  const [start, end] = [utc(2025, 2), utc(2025, 2, 31)]
  open(office.file, (db) => {
    const tenantId = Number(tenantOf(db, { slug: 'acme', environment: 'live' }))
    addTrades(db, { tenantId, users: 50, plans: 50, trades, start, end })
  })
  // Other processes run in the real present, and so does the office from now on.
  office.setClock(presentMachine.clock())
  await office.read('tick')
  return office
}

// A month with ids and reasons that trip spreadsheets and careless CSV readers.

export const NASTY = [
  'plain',
  '=1+1',
  '+49 30 1',
  '-1',
  '@SUM(A1)',
  'a,b',
  'say "no"',
  '"',
  ' = spaced',
  "'=quoted",
  'Zoë ₿ 漢字 🙂',
  '1e5',
  '007',
  '=HYPERLINK("http://x";"y")',
]
export const REASONS = ['two\nlines', 'two\r\nlines', '\tTAB', '\rCR', '=cmd|x', '-5.00', 'a, "b"']

export async function openNasty(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 0))
  const entries: Entry[] = NASTY.map((name, i) => ({
    user: name,
    plan: `${name}.plan`,
    order: `${name}.order`,
    at: utc(2026, 0, 2, i),
    usd: '10.00',
  }))
  entries.push(...REASONS.map((reason, i) => ({ user: 'plain', at: utc(2026, 0, 3, i), reason })))
  office.enter('acme', 'live', entries)
  office.setClock(utc(2026, 1))
  return office
}

/** The text of a cell: a text that a spreadsheet would take for a formula begins with an apostrophe. */
export const defused = (text: string): string => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text)
