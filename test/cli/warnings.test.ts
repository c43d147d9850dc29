// What check warns of: each thing is brought about, seen with the command that mends it, mended, and gone.

import assert from 'node:assert/strict'
import { chmodSync, closeSync, ftruncateSync, openSync, rmSync, statSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { openStore } from '../../src/store/sqlite/open.ts'
import { PLAN, USER } from '../support/service.ts'
import { openShell, type Shell } from '../support/shell.ts'

const MINUTE = 60_000
const DAY = 86_400_000

type Finding = { level: string; kind: string; subject: string; message: string; mend: string }

/** What check says; that words, codes and --strict agree with it is looked at every time. */
async function warningsOf(shell: Shell): Promise<Finding[]> {
  const [json, words, strict] = [
    await shell.tranche(['check', '--json']),
    await shell.tranche(['check']),
    await shell.tranche(['check', '--strict', '--json']),
  ]
  assert.deepEqual([json.code, json.err, words.code], [0, '', 0], json.out)
  const { ok, findings } = JSON.parse(json.out) as { ok: boolean; findings: Finding[] }
  assert.equal(ok, true)
  assert.equal(strict.code, findings.length === 0 ? 0 : 3)
  assert.deepEqual(JSON.parse(strict.out), { ok: findings.length === 0, findings })
  for (const { level, kind, subject, message, mend } of findings) {
    assert.equal(level, 'warning')
    for (const said of [kind, subject, message, mend]) assert.ok(words.out.includes(said), said)
  }
  return findings.map((finding) => ({ ...finding, mend: plain(shell, finding.mend) }))
}

/** The shell names its database on every command line, and so does what check says to run. */
function plain(shell: Shell, mend: string): string {
  if (!mend.startsWith('tranche ')) return mend
  const named = `tranche --db ${shell.file} `
  assert.ok(mend.startsWith(named), mend)
  return mend.replace(named, 'tranche ')
}

/** The one warning there is, as the three things a reader acts on. */
type Told = [kind: string, subject: string, mend: string]
async function onlyWarning(shell: Shell, find = warningsOf): Promise<Told> {
  const [finding, ...more] = await find(shell)
  assert.ok(finding && more.length === 0, JSON.stringify([finding, ...more]))
  return [finding.kind, finding.subject, finding.mend]
}

/** Without what is said of a partner that fetches nothing, which most of these tests have. */
const exceptSilence = async (shell: Shell): Promise<Finding[]> =>
  (await warningsOf(shell)).filter(({ kind }) => !['partner_silent', 'executions_stuck'].includes(kind))

function tamper(shell: Shell, sql: string): void {
  const db = new SQLite(shell.file)
  db.exec(sql)
  db.close()
}

async function withPartner(t: TestContext): Promise<{ shell: Shell; key: string }> {
  const shell = openShell(t)
  await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'live'])
  return { shell, key: out.trim() }
}

/** With a plan, and a pass a minute for ten minutes. */
async function withPlan(t: TestContext, plan = 'p1'): Promise<{ shell: Shell; key: string }> {
  const { shell, key } = await withPartner(t)
  const post = (path: string, body: object) =>
    shell.call('POST', `/partner/v1/${path}`, key, JSON.stringify(body))
  await post('users', USER)
  assert.equal((await post('plans', { ...PLAN, partner_plan_id: plan })).status, 200)
  await ticks(shell, 10)
  return { shell, key }
}

async function ticks(shell: Shell, count: number, everyMs = MINUTE): Promise<void> {
  for (let n = 0; n < count; n++) {
    shell.advance(everyMs)
    await shell.tranche(['tick', '--price', '60000'])
  }
}

test('a key that ends within 14 days, until its partner has gone over to another', async (t) => {
  const { shell } = await withPartner(t)
  const make = async (days: string) => {
    const { out } = await shell.tranche([
      'key',
      'create',
      'acme',
      '--env',
      'live',
      '--expires-in',
      days,
      '--json',
    ])
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
  // The new one exists, and nobody uses it yet.
  assert.deepEqual((await onlyWarning(shell))[1], warning[1])
  shell.advance(2 * 3_600_000)
  const { key_id: next, key } = JSON.parse(out)
  await shell.call('GET', '/partner/v1/me', key)
  // Its use is noted beside the answer, a moment later perhaps.
  const isOfNext = ({ subject }: { subject: string }) => subject === `acme live key ${next}`
  let after = await warningsOf(shell)
  for (let looks = 0; looks < 100 && !after.every(isOfNext); looks++) {
    await wait(20)
    after = await warningsOf(shell)
  }
  assert.ok(after.every(isOfNext), JSON.stringify(after))
  await shell.tranche(['key', 'revoke', old.key_id])
  await shell.tranche(['partner', 'disable', 'acme'])
  assert.deepEqual(await warningsOf(shell), [])
})

test('ticks that stopped, and only while a plan waits', async (t) => {
  const { shell, key } = await withPlan(t)
  shell.advance(12 * MINUTE)
  assert.deepEqual(await exceptSilence(shell), [])
  shell.advance(1)
  assert.deepEqual(await onlyWarning(shell, exceptSilence), ['ticks_stopped', 'scheduler', 'tranche tick'])
  const body = JSON.stringify({ ...PLAN, status: 'paused' })
  await shell.call('POST', '/partner/v1/plans', key, body)
  assert.deepEqual(await exceptSilence(shell), [])
})

test('passes that begin and never finish do not count, and a first one that never came is missed', async (t) => {
  const { shell } = await withPlan(t)
  shell.advance(13 * MINUTE)
  await shell.tranche(['tick', '--price', '60000'])
  assert.deepEqual(await exceptSilence(shell), [])
  tamper(shell, 'update ticks set finished_at = null')
  assert.match((await warningsOf(shell))[0]?.message ?? '', /no tick has ever finished/)
  tamper(shell, 'delete from ticks')
  assert.equal((await onlyWarning(shell, exceptSilence))[0], 'ticks_stopped')
})

test('executions that were delivered five times', async (t) => {
  const { shell, key } = await withPlan(t)
  for (let delivery = 1; delivery <= 5; delivery++) {
    assert.deepEqual(await exceptSilence(shell), [], `after ${delivery - 1}`)
    const due = JSON.parse((await shell.call('GET', '/partner/v1/executions/due', key)).text)
    assert.ok(due.length > 0)
    await ticks(shell, 6)
  }
  const mend = 'tranche execution list --stuck --partner acme --env live'
  assert.deepEqual(await onlyWarning(shell), ['executions_stuck', 'acme live', mend])
  assert.match(
    (await warningsOf(shell))[0]?.message ?? '',
    /; 1 delivered 5 times or more and never confirmed/,
  )
  const { out } = await shell.tranche([...mend.split(' ').slice(1), '--json'])
  assert.ok(JSON.parse(out).length > 0)
})

test('a webhook that is paused', async (t) => {
  const { shell } = await withPartner(t)
  tamper(
    shell,
    `insert into webhooks select tenant_id, 'https://partner.example/', 'sse_whsec_x', 'paused', 0, 0, null, 500, 10
     from tenants where environment = 'live'`,
  )
  const mend = 'tranche webhook test acme --env live'
  assert.deepEqual(await onlyWarning(shell), ['webhook_paused', 'acme live', mend])
})

/** What the first tranche of a plan came to, in the words of its partner. */
async function confirmFirst(shell: Shell, key: string, body: object): Promise<string> {
  const due = JSON.parse((await shell.call('GET', '/partner/v1/executions/due', key)).text)
  const id = String(due[0].execution_id)
  const report = { partner_order_id: 'o1', status: 'filled', ...body }
  await shell.call('POST', `/partner/v1/executions/${id}/confirm`, key, JSON.stringify(report))
  return id
}

test('fills that were refused, until an operator has decided', async (t) => {
  const { shell, key } = await withPlan(t)
  const filled = { usd_amount: '12.00', btc_amount: '0.0002', execution_price: '60000' }
  const id = await confirmFirst(shell, key, filled)
  assert.deepEqual(await onlyWarning(shell), ['late_fills', 'acme live', 'tranche execution late-fills'])
  assert.match(
    (await warningsOf(shell))[0]?.message ?? '',
    /^1 reported and refused.* since 2026-01-05T00:10/,
  )
  assert.equal((await shell.tranche(['execution', 'accept-late', id])).code, 0)
  assert.deepEqual(await warningsOf(shell), [])
})

for (const [what, btc, found] of [
  ['five percent', '0.00017500', false],
  ['a satoshi more than five percent', '0.00017502', true],
  ['a price in another unit', '0.16666666', true],
] as const) {
  test(`a fill whose dollars and coins are apart by ${what} at its price`, async (t) => {
    const { shell, key } = await withPlan(t)
    const id = await confirmFirst(shell, key, {
      usd_amount: '10.00',
      btc_amount: btc,
      execution_price: '60000',
    })
    const warnings = (await warningsOf(shell)).map(({ kind, subject, mend }) => [kind, subject, mend])
    const warning = ['trade_price', `trade ${id}`, `tranche execution show ${id}`]
    assert.deepEqual(warnings, found ? [warning] : [])
    const right = ['--usd', '10', '--btc', '0.0001666', '--reason', 'a decimal point']
    await shell.tranche(['trade', 'adjust', id, ...right])
    assert.deepEqual(await warningsOf(shell), [], 'what was adjusted is compared with nothing')
  })
}

test('windows that ended with money unspent, for seven days', async (t) => {
  const { shell } = await withPlan(t, "it's p1")
  // The first tranche is never fetched; the rest of the first day is slept through.
  shell.advance(2 * DAY)
  await ticks(shell, 1)
  const [kind, subject, mend] = await onlyWarning(shell, exceptSilence)
  assert.deepEqual([kind, subject], ['windows_unspent', "acme live plan it's p1"])
  assert.equal(mend, "tranche plan show 'it'\\''s p1' --partner acme --env live")
  assert.match((await exceptSilence(shell))[0]?.message ?? '', /in all 1 window of acme live/)
})

test('a clock that was set back', async (t) => {
  const { shell } = await withPlan(t)
  shell.advance(-2 * 3_600_000)
  const findings = await warningsOf(shell)
  const [found] = findings
  assert.deepEqual([found?.kind, found?.mend, findings.length], ['clock_back', 'timedatectl status', 1])
  assert.match(found?.message ?? '', /shows 2026-01-04T22:10.*2026-01-05T00:10.*, 2 h later/)
})

test('a write-ahead log above 64 MiB', async (t) => {
  const { shell } = await withPartner(t)
  // Held open elsewhere, or the last to close it would take the log away.
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
  const findings = await warningsOf(shell)
  assert.deepEqual([...new Set(findings.map(({ kind }) => kind))], ['file_open'])
  assert.equal(findings[0]?.mend, `chmod 600 ${shell.file}`)
  assert.match(findings[0]?.message ?? '', /mode 0640/)
  chmodSync(shell.file, 0o600)
  assert.deepEqual(await warningsOf(shell), [])
  assert.equal(statSync(shell.file).mode & 0o777, 0o600)
})

test('rows of an import that was cut off, and none while one is running', async (t) => {
  const { shell } = await withPartner(t)
  tamper(shell, 'insert into price_imports values (1, 100000000)')
  assert.deepEqual(await onlyWarning(shell), ['import_left', 'price import', 'tranche price import FILE'])
  rmSync(`${shell.file}-import`, { force: true })
  const holder = new SQLite(`${shell.file}-import`)
  holder.exec('begin immediate')
  assert.deepEqual(await warningsOf(shell), [])
  holder.close()
})

test('a database with faults and warnings reports both, faults first', async (t) => {
  const { shell } = await withPlan(t)
  shell.advance(DAY / 2)
  tamper(shell, 'update windows set reserved = 0')
  const { code, out } = await shell.tranche(['check', '--json'])
  assert.equal(code, 3)
  const { ok, findings } = JSON.parse(out) as { ok: boolean; findings: Finding[] }
  assert.equal(ok, false)
  assert.deepEqual(
    findings.map(({ level, kind, mend }) => [level, kind, plain(shell, mend)]),
    [
      ['error', 'window_reserved', 'tranche plan show p1 --partner acme --env live'],
      ['error', 'schedule', 'tranche plan show p1 --partner acme --env live'],
      ['warning', 'ticks_stopped', 'tranche tick'],
      ['warning', 'partner_silent', 'tranche key list acme'],
      ['warning', 'executions_stuck', 'tranche execution list --stuck --partner acme --env live'],
    ],
  )
  assert.match((await shell.tranche(['check'])).out, /2 errors, 3 warnings\n$/)
})
