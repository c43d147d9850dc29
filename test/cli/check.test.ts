// Findings and warnings of check: each is brought about, seen with the command that mends it, mended, and gone.

import assert from 'node:assert/strict'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { formatInstant, plus } from '../../src/core/time.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { each } from '../store/world.ts'
import { folderOfProcess } from '../support/database.ts'
import { fill, openShell, PLAN, runHere, type Shell, succeed, USER } from '../support/service.ts'
import {
  addPlan,
  confirmFirst,
  type Finding,
  MINUTE,
  onlyWarning,
  ticks,
  warningsOf,
  withPartner,
  withPlan,
} from './warned.ts'

const WINDOW = 'acme test plan p1 window 2026-01-05T00:00:00.000Z'

/** For an adjustment of the fill, which triggers protect. */
const ADJUSTED = 'drop trigger adjustments_keep; drop trigger adjustments_stay;'
const CORRECTION = ['--usd', '5', '--btc', '0.00008333', '--reason', 'wrong']

/** Where a finding is, unless the row says so. E is the filled execution, and O the open one. */
const SUBJECTS: [kind: RegExp, subject: string][] = [
  [/^window_|^schedule/, WINDOW],
  [/^adjustment_(place|changed)/, 'adjustment 1'],
  [/^trade_changed/, 'trade E'],
  [/^trade_|^execution_|^adjustment_/, 'execution E'],
  [/^plan_/, 'acme test plan p1'],
  [/^integrity/, 'database'],
]

/** The findings, in their order, and the change to the file. */
const FAULTS: [found: string, sql: string][] = [
  ['window_spent, adjustment_changed', `${ADJUSTED} update adjustments set usd_amount = -1`],
  ['adjustment_changed', `${ADJUSTED} update adjustments set btc_amount = -1`],
  ['adjustment_changed', `${ADJUSTED} update adjustments set reason = 'another'`],
  [
    'integrity',
    "drop trigger audit_keep; update audit set action = 'billing.issue', detail = '{' where audit_id = 1",
  ],
  ['adjustment_place, adjustment_changed', `${ADJUSTED} update adjustments set recorded_at = 0`],
  ['foreign_key: adjustments row 1, adjustment_place', `${ADJUSTED} update adjustments set user_id = 99`],
  ['window_spent, adjustment_amount, trade_changed', `${ADJUSTED} update trades set usd_amount = 100000000`],
  ['window_spent', `${ADJUSTED} delete from adjustments`],
  ['window_spent, trade_changed', 'update trades set usd_amount = usd_amount - 1'],
  // A trade above its reservation, with the ledger bent to fit.
  [
    'trade_amount, trade_changed',
    'update trades set usd_amount = 2000000000; update windows set spent = 2000000000; update schedules set fireable = fireable - 1000000000',
  ],
  // An excess that no operator brought about.
  [
    'window_excess',
    'update windows set excess = 100000000, spent = spent - 100000000; update schedules set fireable = fireable + 100000000',
  ],
  ['trade_changed', 'update trades set recorded_at = recorded_at + 3000000000'],
  ['trade_changed', 'update trades set partner_fee_usd = null'],
  ['window_spent, execution_trade', 'delete from trades'],
  ['window_spent, schedule', 'update windows set spent = spent + 100000000'],
  ['window_reserved, schedule', 'update windows set reserved = 0'],
  [
    'integrity, window_budget, schedule, schedule_follows',
    'update windows set budget = 100000000; update schedules set budget = 100000000',
  ],
  ['schedule', 'update schedules set fireable = fireable + 1000000'],
  ['window_reserved', "delete from executions where status = 'sent'"],
  ['window_reserved, execution_trade', "update executions set status = 'sent' where execution_id = 'E'"],
  [
    'window_reserved, execution_trade: execution O',
    "update executions set status = 'cancelled' where status = 'sent'",
  ],
  ['plan_window, execution_open: execution O, schedule_follows', "update plans set status = 'cancelled'"],
  // An earlier stop of the user has ended: nothing pending would still stop the plan.
  [
    'execution_open: execution O, plan_user',
    "update users set status = 'disabled'; insert into stops (user_id, tenant_id, begun_at, ended_at) select user_id, tenant_id, 1, 2 from users",
  ],
  [
    'execution_place',
    "update executions set tenant_id = (select tenant_id from tenants where environment = 'live') where execution_id = 'E'",
  ],
  ['foreign_key: consents row 99', "insert into consents values (99, 12345, 'v1', 0, 0, 0)"],
]

for (const [found, sql] of FAULTS) {
  test(`check finds ${found} after: ${sql.replace(ADJUSTED, '')}`, async (t) => {
    const { shell, filled, open } = await withTrade(t)
    const real = (text: string) => text.replace(/\bE\b/, filled).replace(/\bO\b/, open)
    const isAdjusted = sql.startsWith(ADJUSTED)
    if (isAdjusted) await succeed(shell, 'trade', 'adjust', filled, ...CORRECTION)
    tamper(shell, real(sql))
    const reconcile = ['billing', 'reconcile', '--month', '2026-01', '--env', 'test']
    if (isAdjusted) assert.equal((await shell.tranche(reconcile)).code, 3)
    const { code, out, err } = await shell.tranche(['check', '--json'])
    assert.deepEqual([code, err], [3, ''])
    const answer = JSON.parse(out)
    assert.equal(answer.ok, false)
    const faults: Finding[] = answer.findings.filter(({ level }: Finding) => level === 'error')
    const expected = found.split(', ').map((one) => {
      const [kind = '', subject = SUBJECTS.find(([kinds]) => kinds.test(kind))?.[1] ?? ''] = one.split(': ')
      return [kind, real(subject)]
    })
    assert.deepEqual(each(faults, 'kind', 'subject'), expected)
    const words = await shell.tranche(['check'])
    assert.equal(words.code, 3)
    for (const { subject, message, mend } of faults) {
      for (const said of [subject, message, mend]) assert.ok(words.out.includes(said), said)
      const [, ...argv] = mend.replaceAll("'", '').split(' ')
      assert.equal((await shell.tranche(argv)).code, 0, mend)
    }
  })
}

for (const [what, damage] of [
  // No cells: the index is empty while its table is not.
  ['plans_by_user', (page: Buffer) => page.fill(0, 3, 5)],
  ['executions', (page: Buffer) => page.fill(0xff)],
  ['trades', (page: Buffer) => page.fill(0)],
] as const) {
  test(`check finds a damaged page of ${what}`, async (t) => {
    const { shell } = await withTrade(t)
    damagePage(shell, what, damage)
    const { code, out, err } = await shell.tranche(['check', '--json'])
    assert.deepEqual([code, err], [3, ''])
    const { findings } = JSON.parse(out) as { findings: Finding[] }
    assert.equal(findings[0]?.kind, 'integrity')
    for (const { message } of findings) assert.doesNotMatch(message, /\n|\*\*\*/)
  })
}

const FAILING_WEBHOOK = `
  insert into webhooks select tenant_id, 'https://partner.example/', 'sse_whsec_x', 'active', 0, 0, null, 500, 5, 0, 'HTTP 500', 0
  from tenants where environment = 'live'`

test('what check says to run names the database that --db has named', async (t) => {
  const shell = openShell(t)
  const folder = join(shell.folder, "a copy's")
  mkdirSync(folder)
  const copy = join(folder, 'x.db')
  await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  await shell.tranche(['backup', copy])
  const findings = async (...first: string[]) => {
    const { out } = await runHere([...first, 'check', '--json'], { machine: shell.machine })
    return each(JSON.parse(out).findings as Finding[], 'mend')
  }
  const db = new SQLite(copy)
  db.exec(FAILING_WEBHOOK)
  db.close()
  const quoted = `'${copy.replace("'", "'\\''")}'`
  assert.deepEqual(await findings('--db', copy), [`tranche --db ${quoted} webhook test acme --env live`])
  process.env.TRANCHE_DB = copy
  t.after(() => delete process.env.TRANCHE_DB)
  assert.deepEqual(await findings(), ['tranche webhook test acme --env live'])
})

type Traded = { copy: string; filled: string; open: string; laterMs: number }
let traded: Promise<Traded> | undefined

/** A plan with a filled execution and a delivered one that is still open; made once, and copied for each test. */
async function withTrade(t: TestContext): Promise<{ shell: Shell; filled: string; open: string }> {
  traded ??= trade(t)
  const { copy, laterMs, ...executions } = await traded
  const shell = openShell(t)
  copyFileSync(copy, shell.file)
  shell.advance(laterMs)
  return { shell, ...executions }
}

async function trade(t: TestContext): Promise<Traded> {
  const shell = openShell(t)
  await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'test'])
  const call = async (method: string, path: string, body?: object) => {
    const answer = await shell.ask(out.trim(), method, path, body)
    assert.equal(answer.status, 200, JSON.stringify(answer.body))
    return answer.body
  }
  await call('POST', 'users', USER)
  await call('POST', 'plans', PLAN)
  await shell.tranche(['tick', '--price', '60000'])
  const [{ execution_id: filled }] = await call('GET', 'executions/due')
  const bought = { ...fill('o1', '10.00'), btc_amount: '0.00016667', partner_fee_usd: '0.05' }
  await call('POST', `executions/${filled}/confirm`, bought)
  const laterMs = 8 * 3_600_000
  shell.advance(laterMs)
  await shell.tranche(['tick', '--price', '60000'])
  const [{ execution_id: open }] = await call('GET', 'executions/due')
  for (const how of [[], ['--strict']])
    assert.deepEqual(await shell.tranche(['check', ...how]), { code: 0, out: 'ok\n', err: '' })
  const copy = join(folderOfProcess(), 'traded.db')
  assert.equal((await shell.tranche(['backup', copy])).code, 0)
  return { copy, filled, open, laterMs }
}

test('audit lists an entry whose detail is damaged with what is left of it, between the others', async (t) => {
  const shell = openShell(t)
  for (const slug of ['acme', 'beta']) await succeed(shell, 'partner', 'create', slug, '--name', slug)
  tamper(shell, `drop trigger audit_keep; update audit set detail = '{"partner' where audit_id = 1`)
  const listed = JSON.parse(await succeed(shell, 'audit', '--json'))
  assert.deepEqual(each(listed, 'subject'), ['acme', 'beta'])
  assert.deepEqual(each(listed, 'detail'), [{ damaged: '{"partner' }, { name: 'beta' }])
})

/** Changes rows as somebody with the file and a SQLite shell could. */
function tamper(shell: Shell, sql: string): void {
  const db = new SQLite(shell.file)
  db.pragma('foreign_keys = off')
  db.pragma('ignore_check_constraints = on')
  // Triggers in the way are restored.
  const triggers = "select sql from sqlite_schema where type = 'trigger'"
  const before = db.prepare(triggers).pluck().all() as string[]
  db.exec(sql)
  const left = db.prepare(triggers).pluck().all()
  for (const trigger of before) if (!left.includes(trigger)) db.exec(trigger)
  db.close()
}

/** Overwrites the root page of a table or an index. */
function damagePage(shell: Shell, name: string, damage: (page: Buffer) => void): void {
  const db = new SQLite(shell.file)
  db.pragma('wal_checkpoint(truncate)')
  const size = Number(db.pragma('page_size', { simple: true }))
  const root = db.prepare('select rootpage from sqlite_schema where name = ?').pluck().get(name)
  db.close()
  const file = openSync(shell.file, 'r+')
  const page = Buffer.alloc(size)
  const at = (Number(root) - 1) * size
  readSync(file, page, 0, size, at)
  damage(page)
  writeSync(file, page, 0, size, at)
  closeSync(file)
}

// Warnings of check: each is brought about, seen with the command that mends it, mended, and gone.

const DAY = 86_400_000

test('a key that ends within 14 days, until its partner has gone over to another', async (t) => {
  const { shell } = await withPartner(t)
  const make = async (days: string) => {
    const options = ['--env', 'live', '--expires-in', days, '--json']
    const { out } = await shell.tranche(['key', 'create', 'acme', ...options])
    return JSON.parse(out) as { key_id: string; key: string }
  }
  const old = await make('20d')
  shell.advance(6 * DAY - 1)
  assert.deepEqual(await warningsOf(shell), [])
  shell.advance(1)
  const warning = ['key_ends', `acme live key ${old.key_id}`, `tranche key rotate ${old.key_id}`]
  assert.deepEqual(await onlyWarning(shell), warning)
  await shell.call('GET', '/partner/v1/me', old.key)
  const { out } = await shell.tranche(['key', 'rotate', old.key_id, '--overlap', '10d', '--json'])
  await shell.tranche(['key', 'list', 'acme'])
  // The new key exists, and nobody uses it yet. Another rotation would make a third key that ends with the first.
  assert.deepEqual(await onlyWarning(shell), [...warning.slice(0, 2), 'tranche key list acme'])
  assert.match((await warningsOf(shell))[0]?.message ?? '', /, and its successor is not in use/)
  const again = await shell.tranche(['key', 'rotate', old.key_id])
  assert.deepEqual([again.code, again.out], [5, ''])
  assert.match(again.err, /has a successor, which `tranche key list acme` shows/)
  shell.advance(2 * 3_600_000)
  const { key_id: next, key } = JSON.parse(out)
  await shell.call('GET', '/partner/v1/me', key)
  // Its use is recorded concurrently with the answer, perhaps a moment later.
  const isOfNext = ({ subject }: { subject: string }) => subject === `acme live key ${next}`
  const isUsed = async () => {
    type Key = { key_id: string; last_used_at: string | null }
    const keys: Key[] = JSON.parse((await shell.tranche(['key', 'list', 'acme', '--json'])).out)
    return keys.some((seen) => seen.key_id === next && seen.last_used_at)
  }
  for (let looks = 0; looks < 100 && !(await isUsed()); looks++) await wait(20)
  const after = await warningsOf(shell)
  assert.ok(after.every(isOfNext), JSON.stringify(after))
  await shell.tranche(['key', 'revoke', old.key_id])
  await shell.tranche(['partner', 'disable', 'acme'])
  assert.deepEqual(await warningsOf(shell), [])
})

test('a webhook that fails, and one that is paused for it, with the reason', async (t) => {
  const { shell } = await withPartner(t)
  tamper(shell, FAILING_WEBHOOK)
  const mend = 'tranche webhook test acme --env live'
  tamper(shell, 'update webhooks set consecutive_failures = 4')
  assert.deepEqual(await warningsOf(shell), [])
  tamper(shell, 'update webhooks set consecutive_failures = 5')
  assert.deepEqual(await onlyWarning(shell), ['webhook_failing', 'acme live', mend])
  tamper(shell, "update webhooks set consecutive_failures = 10, status = 'paused'")
  assert.deepEqual(await onlyWarning(shell), ['webhook_failing', 'acme live', mend])
  const said = (await warningsOf(shell))[0]?.message ?? ''
  assert.match(said, /^paused after 10 failures in a row \(the last: HTTP 500\)/)
  assert.match(said, /; once a test gets through, `tranche webhook resume acme --env live` lifts the pause$/)
})

test('a write-ahead log above 64 MiB', async (t) => {
  const { shell } = await withPartner(t)
  // Kept open by another connection, or the last one to close would remove the log.
  const other = await openStore(shell.file, { clock: shell.machine.clock, create: false })
  t.after(() => other.close())
  const file = `${shell.file}-wal`
  const log = openSync(file, 'r+')
  ftruncateSync(log, 64 * 2 ** 20)
  assert.deepEqual(await warningsOf(shell), [])
  ftruncateSync(log, 64 * 2 ** 20 + 1)
  closeSync(log)
  assert.deepEqual(await onlyWarning(shell), ['wal_large', file, `lsof ${file}`])
})

test('files that others can read', async (t) => {
  const { shell } = await withPartner(t)
  chmodSync(shell.file, 0o640)
  const [{ message, ...found } = { message: '' }] = await warningsOf(shell)
  assert.deepEqual(found, { ...found, kind: 'file_open', mend: `chmod 600 ${shell.file}` })
  assert.match(message, /mode 0640/)
  chmodSync(shell.file, 0o600)
  assert.deepEqual(await warningsOf(shell), [])
  assert.equal(statSync(shell.file).mode & 0o777, 0o600)
})

test('a folder in which others can create files', async (t) => {
  const { shell } = await withPartner(t)
  const folder = dirname(shell.file)
  for (const [mode, words] of [
    [0o1777, 'mode 01777'],
    [0o757, 'mode 0757'],
  ] as const) {
    chmodSync(folder, mode)
    const [{ message, ...found } = { message: '' }] = await warningsOf(shell)
    assert.deepEqual(found, { ...found, kind: 'file_open', mend: `chmod go-w ${folder}` })
    assert.match(message, /; end that with chmod go-w, or move the database into a folder of its own$/)
    assert.ok(message.includes(words), message)
  }
  // The private group of a user lets in no other user.
  chmodSync(folder, statSync(folder).uid === statSync(folder).gid ? 0o775 : 0o755)
  assert.deepEqual(await warningsOf(shell), [])
})

// Odd fills: made before their execution, or at a price that the market never had. test/core/price.test.ts and the
// contract of the stores say which are odd.

const FILL = { usd_amount: '10.00', btc_amount: '0.00016666', execution_price: '60000' }
const json = async (shell: Shell, ...argv: string[]) => {
  const { code, out, err } = await shell.tranche([...argv, '--json'])
  assert.deepEqual([code, err], [0, ''], out)
  return JSON.parse(out)
}

test('odd fills of a test environment are said where somebody looks for them, and nowhere else', async (t) => {
  const { shell } = await withPlan(t)
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'test'])
  const key = out.trim()
  await addPlan(shell, key, { partner_plan_id: 'sand' })
  await ticks(shell, 1)
  const before = [await json(shell, 'check'), (await json(shell, 'status')).findings]
  const executed_at = formatInstant(plus(shell.machine.clock(), -60 * MINUTE))
  const id = await confirmFirst(shell, key, { ...FILL, btc_amount: '15625', executed_at })
  assert.deepEqual([await json(shell, 'check'), (await json(shell, 'status')).findings], before, 'no alarm')

  const told = (findings: Finding[]) => each(findings, 'kind', 'subject')
  const both = [
    ['fill_early', `acme test execution ${id}`],
    ['trade_price', `trade ${id}`],
  ]
  assert.deepEqual(told((await json(shell, 'check', '--env', 'test')).findings), both)
  assert.deepEqual(told((await json(shell, 'status', '--env', 'test')).findings), both)
  const words = await succeed(shell, 'status', '--env', 'test')
  assert.match(words, /^warning {2}trade_price {2}trade exec_/m)
  assert.equal((await shell.tranche(['check', '--env', 'test', '--strict'])).code, 3)
  assert.equal((await shell.tranche(['check', '--strict'])).code, before[0].findings.length === 0 ? 0 : 3)

  // A sandbox whose clock is ahead has times that no venue has: only the price can be checked.
  const advance = ['sandbox', 'advance', 'acme', '1h', '--price', '60000']
  const { code, err } = await shell.tranche(advance)
  assert.equal(code, 0)
  assert.match(err, /^warning: 1 fill of this sandbox has odd figures; run tranche .*check --env test$/m)
  const again = await shell.tranche([...advance, '--json'])
  assert.deepEqual(told(JSON.parse(again.out).findings), both.slice(1))
})

test('a database with faults and warnings reports both, faults first', async (t) => {
  const { shell } = await withPlan(t)
  shell.advance(DAY / 2)
  tamper(shell, 'update windows set reserved = 0')
  const { findings } = JSON.parse((await shell.tranche(['check', '--json'])).out) as { findings: Finding[] }
  const kinds = ['window_reserved', 'schedule', 'ticks_stopped', 'partner_silent', 'executions_stuck']
  assert.deepEqual(each(findings, 'kind'), kinds)
  assert.match((await shell.tranche(['check'])).out, /2 errors, 3 warnings\n$/)
})

test('a recorded purchase is held against the market of its own day, not of the day it was booked', async (t) => {
  const { shell, key } = await withPlan(t)
  const executed_at = formatInstant(shell.machine.clock())
  const at = ['--at', executed_at]
  shell.advance(3 * 24 * 60 * MINUTE)
  await ticks(shell, 1, '20000')
  const record = async (order: string, btc: string, ...when: string[]) => {
    const words = ['trade', 'record', '--partner', 'acme', '--plan', 'p1', '--order', order, '--reason', 'x']
    const made = await shell.tranche(['--json', ...words, '--usd', '10', '--btc', btc, ...when])
    assert.equal(made.code, 0, made.err)
    return JSON.parse(made.out).execution_id
  }
  const ofPrice = async () => (await warningsOf(shell)).filter(({ kind }) => kind === 'trade_price')
  await record('then', '0.00016666', ...at)
  await record('now', '0.0005')
  // A trade that its partner reports days later, as after a restore, was bought then too.
  const unknown = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'
  const report = { ...FILL, status: 'filled', partner_order_id: 'late', executed_at }
  await shell.ask(key, 'POST', `executions/${unknown}/confirm`, report)
  await json(shell, 'execution', 'accept-late', unknown, '--plan', 'p1')
  assert.deepEqual(await ofPrice(), [])
  const wrong = await record('of another day', '0.0005', ...at)
  const [found, ...more] = await ofPrice()
  assert.deepEqual([found?.subject, more], [`trade ${wrong}`, []])
  assert.match(found?.message ?? '', /while the market was at 60000\.00/)
})
