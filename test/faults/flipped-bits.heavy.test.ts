// A bit of a row that the disk gives back the other way round: it is seen before it costs anything. Each damage hits a
// copy of a database with a row of every kind in it. A changed column is seen when the database does not open, or
// `check` exits with 3; all others are in HARMLESS, with the reason. DAMAGES=900 does more, and prints a table.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import SQLite from 'better-sqlite3'
import { HOUR_MS } from '../../src/core/time.ts'
import { TABLES } from '../../src/store/tables.ts'
import { playSequel, playStory } from '../releases/story.ts'
import { openShell, runHere, type Shell, succeed, USER } from '../support/service.ts'
import { chanceOf } from './failing.ts'

// Where the rows of a SQLite file lie: the bytes of each cell of each table, read from the file's own format
// (https://www.sqlite.org/fileformat2.html).

/** The bytes of one row in the file: from `start` up to, not including, `end`. */
type Payload = { start: number; end: number }

const INTERIOR_INDEX = 2
const INTERIOR_TABLE = 5
const LEAF_INDEX = 10

/** The rows of every table, by its name; what overflows to a page of its own is left out. */
function payloadsOf(file: string, bytes: Buffer): Map<string, Payload[]> {
  const db = new SQLite(file, { readonly: true })
  const roots = db
    .prepare("select name, rootpage from sqlite_schema where type = 'table' and name not like 'sqlite_%'")
    .all() as { name: string; rootpage: number }[]
  db.close()
  const pageBytes = bytes.readUInt16BE(16)
  return new Map(roots.map(({ name, rootpage }) => [name, [...cellsOf(bytes, pageBytes, rootpage)]]))
}

function* cellsOf(bytes: Buffer, pageBytes: number, page: number): Generator<Payload> {
  const base = (page - 1) * pageBytes
  const head = page === 1 ? base + 100 : base
  const kind = bytes[head] as number
  const isInterior = kind === INTERIOR_INDEX || kind === INTERIOR_TABLE
  const cells = bytes.readUInt16BE(head + 3)
  for (let i = 0; i < cells; i++) {
    let at = base + bytes.readUInt16BE(head + (isInterior ? 12 : 8) + 2 * i)
    if (isInterior) {
      yield* cellsOf(bytes, pageBytes, bytes.readUInt32BE(at))
      at += 4
      if (kind === INTERIOR_TABLE) continue
    }
    const length = varint(bytes, at)
    // An index, as a table without rowid is one, has no number before its row.
    const start =
      kind === LEAF_INDEX || kind === INTERIOR_INDEX ? length.next : varint(bytes, length.next).next
    yield { start, end: Math.min(start + length.value, base + pageBytes) }
  }
  if (isInterior) yield* cellsOf(bytes, pageBytes, bytes.readUInt32BE(head + 8))
}

function varint(bytes: Buffer, at: number): { value: number; next: number } {
  let value = 0
  for (let i = 0; i < 9; i++) {
    const byte = bytes[at + i] as number
    value = value * 128 + (byte & 0x7f)
    if (byte < 0x80) return { value, next: at + i + 1 }
  }
  return { value, next: at + 9 }
}

// A database with a row of every kind in it: the weeks of a service (test/releases/story.ts), and what those leave out.

/** Plays it on the shell's database. Resolves with the key of the first partner's live environment. */
async function wholeLife(shell: Shell, seed: number): Promise<string> {
  const { keys } = await playStory(shell, seed)
  await playSequel(shell, keys)
  const [live = '', test = '', other = ''] = keys
  const call = async (key: string, method: string, path: string, body?: object, expected = 200) => {
    const { status, text } = await shell.call(method, `/partner/v1${path}`, key, body && JSON.stringify(body))
    if (status !== expected) throw new Error(`${method} ${path}: ${status} ${text}`)
    return JSON.parse(text)
  }
  const plan = { partner_user_id: 'ana', amount_usd: '61.00', frequency: 'daily' }
  for (const key of [live, test]) await call(key, 'POST', '/webhooks', { url: 'https://127.0.0.1:9/hook' })
  await call(live, 'POST', '/plans', { ...plan, partner_plan_id: 'off', smart_timing_enabled: false })
  await call(live, 'POST', '/plans', { ...plan, partner_plan_id: 'paused', status: 'paused' })
  await call(live, 'POST', '/users', { ...USER, partner_user_id: 'dan' })
  await call(live, 'POST', '/plans', { ...plan, partner_user_id: 'dan', partner_plan_id: 'dan' })
  await call(live, 'PATCH', '/users/dan', { status: 'disabled' })
  const commands = [
    ['partner', 'create', 'closed', '--name', 'Closed'],
    ['partner', 'disable', 'closed'],
    ['partner', 'set-min-tranche', 'bolt', '5.00'],
    ['key', 'create', 'acme', '--env', 'live', '--label', 'for a month', '--expires-in', '30d'],
    ['billing', 'export', '--month', '2026-01'],
    ['billing', 'export', '--month', '2026-02'],
    ['sandbox', 'reset', 'bolt', '--yes'],
    ['sandbox', 'advance', 'acme', '1d', '--price', '60000'],
  ]
  for (const argv of commands) await succeed(shell, ...argv)
  await succeed(shell, 'partner', 'hold', 'bolt')
  // Something out with a partner, a fill nobody has decided on, and something that waits.
  const due = await call(live, 'GET', '/executions/due')
  await refuseFill(
    due[0] ?? (await nextDue(shell, () => call(live, 'GET', '/executions/due'))),
    (path, body) => call(live, 'POST', path, body, 400),
  )
  shell.advance(6 * HOUR_MS)
  await succeed(shell, 'tick', '--price', '58000')
  if (other === '') throw new Error('there is no second partner')
  return live
}

type Due = { execution_id: string; amount_usd: string }

async function nextDue(shell: Shell, poll: () => Promise<Due[]>): Promise<Due> {
  for (let tries = 0; tries < 8; tries++) {
    shell.advance(6 * HOUR_MS)
    await succeed(shell, 'tick', '--price', '55000')
    const [first] = await poll()
    if (first) return first
  }
  throw new Error('nothing fired in two days')
}

/** More than was reserved: refused, and kept. */
async function refuseFill(
  { execution_id, amount_usd }: Due,
  report: (path: string, body: object) => Promise<unknown>,
): Promise<void> {
  await report(`/executions/${execution_id}/confirm`, {
    partner_order_id: 'too much',
    status: 'filled',
    usd_amount: `${Number(amount_usd) + 1}`,
    btc_amount: '0.001',
    execution_price: '60000',
  })
}

// The damages, and which of them may go unseen.

const DAMAGES = Number(process.env.DAMAGES ?? 120)
/** How many bytes are noise in every fifth damage. */
const WIDE = 4

/** What a change of a column that nobody sees can cost: nothing that this product answers for. */
const HARMLESS: Record<string, string> = {
  'api_keys.last_used_at': 'shown, and decides nothing',
  'partners.updated_at': 'shown, and decides nothing',
  'users.updated_at': 'shown, and decides nothing',
  'plans.updated_at': 'shown, and decides nothing',
  'windows.closed_at': 'when it closed: a warning, no amount',
  'executions.delivered_count':
    'shown; 0 or not, the status has it (check constraint), and from 5 on an index',
  'executions.cancel_reason': 'the words of an operator; the audit log has them as well',
  'executions.lease_expires_at': 'of an open one an index has it; of any other it is only shown',
  'schedules.half_width': 'the digest has it to 2^-40 of a price, and it only decides when a tranche fires',
  'late_reports.decision_reason': 'the words of an operator; the audit log has them as well',
  'late_reports.accepted_at': 'when it was accepted: shown, and the audit log has it as well',
  'late_reports.decided_at': 'when it was decided: shown, and the audit log has it as well',
  'webhooks.updated_at': 'shown, and decides nothing',
  'webhooks.last_delivered_at': 'shown, and decides nothing',
  'webhooks.last_status_code': 'shown, and decides nothing',
  'webhooks.consecutive_failures': 'at worst no wake-up is sent: polling is the truth',
  'webhooks.last_failed_at': 'shown, and decides nothing',
  'webhooks.last_failure_reason': 'shown, and decides nothing',
  'webhook_events.tick_id': 'at worst no wake-up is sent: polling is the truth',
  'webhook_events.tenant_id': 'at worst a wake-up too many or too few: polling is the truth',
  'webhook_events.count': 'at worst a wake-up with a wrong count: it is never an instruction',
  'webhook_events.created_at': 'shown, and decides nothing',
  'webhook_events.claimed_at': 'at worst no wake-up is sent: polling is the truth',
  'webhook_deliveries.tenant_id': 'shown to another tenant of this database: an origin and an id, no secret',
  'webhook_deliveries.number': 'how long it is kept',
  'webhook_deliveries.ended_at': 'shown, and how soon the next test may be sent',
  'webhook_deliveries.count': 'shown, and how soon the next test may be sent',
  'webhook_deliveries.earliest_execution_id': 'shown, and decides nothing',
  'webhook_deliveries.origin': 'shown, and decides nothing',
  'webhook_deliveries.status_code': 'shown, and decides nothing',
  'webhook_deliveries.failure_reason': 'shown, and decides nothing',
  'webhook_deliveries.duration_ms': 'shown, and decides nothing',
  'prices.at': 'when a tranche fires, never how much is spent',
  'prices.price': 'when a tranche fires, never how much is spent',
  'prices.source': 'shown, and decides nothing',
  'price_imports.at': 'becomes a price: when a tranche fires, never how much is spent',
  'price_imports.price': 'becomes a price: when a tranche fires, never how much is spent',
  'volatility.variance': 'when a tranche fires, never how much is spent',
  'volatility.hours': 'when a tranche fires, never how much is spent',
  'volatility.last_price': 'when a tranche fires, never how much is spent',
  'volatility.last_at': 'when a tranche fires, never how much is spent',
  'ticks.at': 'how early the failsafe begins, within its bounds',
  'ticks.price': 'shown, and decides nothing',
  'ticks.plans_evaluated': 'shown, and decides nothing',
  'ticks.executions_created': 'shown, and decides nothing',
  'ticks.windows_rolled': 'shown, and decides nothing',
  'ticks.finished_at': 'when the last pass was: a warning, no amount',
  'ticks.feed': 'shown, and decides nothing',
  'ticks.feed_failure': 'shown, and decides nothing',
  'ticks.database_bytes': 'shown, and decides nothing',
  'sandboxes.offset_ms': 'the clock of a test environment: nothing is bought or billed by it',
  'sandboxes.reported_until': 'the clock of a test environment: nothing is bought or billed by it',
  'sandboxes.used_until': 'the keys of a test environment: nothing is bought or billed by them',
  'used_before_reset.partner_plan_id': 'the keys of a test environment: nothing is bought or billed by them',
  'used_before_reset.window_start': 'the keys of a test environment: nothing is bought or billed by them',
  'sandboxes.resetting': 'lets rows of a test environment be deleted: nothing is bought or billed by them',
  'stops.plan_id': 'how far a stop has come: the rule plan_user names the plans that it would leave out',
  'stops.plans_paused': 'shown once, and decides nothing',
  'stops.executions_cancelled': 'shown once, and decides nothing',
  'stops.begun_at': 'shown, and decides nothing',
  'stops.ended_at': 'shown, and decides nothing',
  'polls.polled_at': 'when a partner was heard of last: a warning, no amount',
}

type Values = Record<string, unknown>
type Damage = { column: string; seenBy: string | null }

/** All rows of all tables, by the key they are read in the order of. */
function rowsOf(file: string): Map<string, Values[]> {
  const db = new SQLite(file, { readonly: true })
  try {
    db.defaultSafeIntegers(true)
    return new Map(
      TABLES.map(({ name }) => [name, db.prepare(`select * from ${name} not indexed`).all() as Values[]]),
    )
  } finally {
    db.close()
  }
}

/** Of these it decides something whether there is a value, and nothing which: `NAME or null` is never harmless. */
const WHETHER: ReadonlySet<string> = new Set([
  'windows.closed_at',
  'late_reports.accepted_at',
  'late_reports.decided_at',
  'stops.ended_at',
])

const named = (column: string, before: unknown, after: unknown): string =>
  WHETHER.has(column) && (before === null || after === null) ? `${column} or null` : column

function changedColumns(before: Map<string, Values[]>, after: Map<string, Values[]>): string[] {
  const changed = new Set<string>()
  for (const [table, rows] of before) {
    const now = after.get(table) ?? []
    if (now.length !== rows.length) changed.add(`${table}.*`)
    for (const [i, row] of rows.entries())
      for (const [column, value] of Object.entries(row))
        if (now[i] && now[i][column] !== value)
          changed.add(named(`${table}.${column}`, value, now[i][column]))
  }
  return [...changed]
}

/** A check of a damaged copy, on a machine that is busy with other things. */
const DAMAGE_MAX_MS = 3_000

const timeout = DAMAGES * DAMAGE_MAX_MS
test('a flipped bit in a row is seen, or decides nothing', { timeout }, async (t) => {
  const random = chanceOf(t)
  const shell = openShell(t)
  await wholeLife(shell, 1 + Math.floor(random() * 1000))
  const sound = join(shell.folder, 'sound.db')
  await succeed(shell, 'backup', sound)
  const [bytes, before] = [readFileSync(sound), rowsOf(sound)]
  const check = (file: string) =>
    runHere(['--db', file, 'check', '--json'], { machine: shell.machine, env: {}, input: '', terminals: [] })
  assert.equal((await check(sound)).code, 0, (await check(sound)).out)
  const places = [...payloadsOf(sound, bytes)].filter(
    ([table, rows]) => table !== 'migrations' && rows.length > 0,
  )
  const empty = TABLES.filter(({ name }) => !places.some(([table]) => table === name)).map(({ name }) => name)
  // A life that stands still would do nothing else, and the last results of jobs decide nothing.
  const without = ['price_imports', 'clock_disputes', 'standstill', 'last_results', 'stops']
  assert.deepEqual(empty, without, 'the life has a row of every kind')

  /** What became of one damage: null when no row reads differently. */
  async function strike(at: number): Promise<{ changed: string[]; seenBy: string | null } | null> {
    const [, rows] = places[Math.floor(random() * places.length)] as (typeof places)[number]
    const { start, end } = rows[Math.floor(random() * rows.length)] as (typeof rows)[number]
    const damaged = Buffer.from(bytes)
    const byte = start + Math.floor(random() * (end - start))
    if (at % 5 === 0)
      for (let i = byte; i < Math.min(end, byte + WIDE); i++) damaged[i] = Math.floor(random() * 256)
    else damaged[byte] = (bytes[byte] as number) ^ (1 << Math.floor(random() * 8))
    const file = join(shell.folder, `damaged-${at}.db`)
    writeFileSync(file, damaged, { mode: 0o600 })
    let changed: string[]
    try {
      changed = changedColumns(before, rowsOf(file))
    } catch {
      return { changed: ['unreadable'], seenBy: 'SQLite' }
    }
    if (changed.length === 0) return null
    const { code, out, err } = await check(file)
    if (code === 0) return { changed, seenBy: null }
    assert.ok(code === 3 || /database_damaged|not a database|schema_newer/.test(err), `${code} ${err}`)
    const findings: { kind: string; level: string }[] = code === 3 ? JSON.parse(out).findings : []
    const kinds = findings.filter(({ level }) => level === 'error').map(({ kind }) => kind)
    return {
      changed,
      seenBy: kinds.length > 0 ? [...new Set(kinds)].join(' ') : `refused: ${err.slice(0, 80)}`,
    }
  }

  const damages: Damage[] = []
  let changedRows = 0
  for (let at = 0; at < DAMAGES; at++) {
    const outcome = await strike(at)
    if (!outcome) continue
    changedRows += 1
    for (const column of outcome.changed) damages.push({ column, seenBy: outcome.seenBy })
  }
  const unseen = damages.filter(({ seenBy }) => seenBy === null)
  t.diagnostic(
    `${DAMAGES} damages: ${changedRows} changed a row, ${unseen.length} changed columns went unseen`,
  )
  if (process.env.DAMAGES !== undefined) for (const line of tableOf(damages)) t.diagnostic(line)
  assert.ok(changedRows > DAMAGES / 8, 'few damages hit anything')
  assert.deepEqual(
    [...new Set(unseen.map(({ column }) => column))].filter((column) => !(column in HARMLESS)),
    [],
  )
})

/** A line for each column: how often it changed, by what it was seen, and why it is harmless where it was not. */
function tableOf(damages: readonly Damage[]): string[] {
  return [...Map.groupBy(damages, ({ column }) => column)].sort().map(([column, of]) => {
    const seen = Map.groupBy(of, ({ seenBy }) => seenBy ?? 'nobody')
    const by = [...seen].map(([who, times]) => `${who} ${times.length}`).join(', ')
    return `${column} | ${of.length} | ${by} | ${seen.has('nobody') ? (HARMLESS[column] ?? '!') : ''}`
  })
}
