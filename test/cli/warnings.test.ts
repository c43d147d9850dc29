// What check warns of: each thing is brought about, seen with the command that mends it, mended, and gone.

import assert from 'node:assert/strict'
import { chmodSync, closeSync, ftruncateSync, openSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { openStore } from '../../src/store/sqlite/open.ts'
import { giveDigests } from '../support/database.ts'
import type { Shell } from '../support/service.ts'
import { PLAN } from '../support/service.ts'
import {
  confirmFirst,
  type Finding,
  MINUTE,
  onlyWarning,
  plain,
  ticks,
  warningsOf,
  withPartner,
  withPlan,
} from './warned.ts'

const DAY = 86_400_000

/** Without what is said of a partner that fetches nothing, which most of these tests have. */
const exceptSilence = async (shell: Shell): Promise<Finding[]> =>
  (await warningsOf(shell)).filter(({ kind }) => !['partner_silent', 'executions_stuck'].includes(kind))

function tamper(shell: Shell, sql: string): void {
  const db = new SQLite(shell.file)
  db.exec(sql)
  db.close()
}

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
  // The new one exists, and nobody uses it yet. Another rotation would make a third key that ends with the first.
  assert.deepEqual(await onlyWarning(shell), [...warning.slice(0, 2), 'tranche key list acme'])
  assert.match((await warningsOf(shell))[0]?.message ?? '', /, and its successor is not in use/)
  const again = await shell.tranche(['key', 'rotate', old.key_id])
  assert.deepEqual([again.code, again.out], [5, ''])
  assert.match(again.err, /has a successor, which `tranche --db \S+ key list acme` shows/)
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
  const said = (await warningsOf(shell))[0]?.message ?? ''
  assert.match(said, /; 1 delivered 5 times or more and never confirmed/)
  const { out } = await shell.tranche([...mend.split(' ').slice(1), '--json'])
  assert.ok(JSON.parse(out).length > 0)
})

test('a webhook that fails, and one that is paused for it, with the reason', async (t) => {
  const { shell } = await withPartner(t)
  tamper(
    shell,
    `insert into webhooks select tenant_id, 'https://partner.example/', 'sse_whsec_x', 'active', 0, 0, null, 500, 4, 0, 'HTTP 500', 0
     from tenants where environment = 'live'`,
  )
  const db = new SQLite(shell.file)
  giveDigests(db)
  db.close()
  assert.deepEqual(await warningsOf(shell), [])
  const mend = 'tranche webhook test acme --env live'
  tamper(shell, 'update webhooks set consecutive_failures = 5')
  assert.deepEqual(await onlyWarning(shell), ['webhook_failing', 'acme live', mend])
  tamper(shell, "update webhooks set consecutive_failures = 10, status = 'paused'")
  assert.deepEqual(await onlyWarning(shell), ['webhook_paused', 'acme live', mend])
  const said = (await warningsOf(shell))[0]?.message ?? ''
  assert.match(said, /^paused after 10 failures in a row \(the last: HTTP 500\)/)
  // It names the database, as --db did.
  assert.ok(said.includes(`\`tranche --db ${shell.file} webhook resume acme --env live\``), said)
})

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
  assert.deepEqual(await onlyWarning(shell), ['clock_back', 'clock', 'timedatectl status'])
  assert.match(
    (await warningsOf(shell))[0]?.message ?? '',
    /shows 2026-01-04T22:10.*2026-01-05T00:10.*, 2 h later/,
  )
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
    assert.deepEqual(found, { ...found, kind: 'folder_open', mend: `chmod go-w ${folder}` })
    assert.match(message, /; end that with chmod go-w, or move the database into a folder of its own$/)
    assert.ok(message.includes(words), message)
  }
  // The group of one user alone is no other user.
  chmodSync(folder, statSync(folder).uid === statSync(folder).gid ? 0o775 : 0o755)
  assert.deepEqual(await warningsOf(shell), [])
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
  assert.deepEqual([code, JSON.parse(out).ok], [3, false])
  const { findings } = JSON.parse(out) as { findings: Finding[] }
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
