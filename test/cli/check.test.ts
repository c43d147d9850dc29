// check finds what was changed behind the program's back, says where, and exits 3.

import assert from 'node:assert/strict'
import { closeSync, copyFileSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { folderOfProcess } from '../support/database.ts'
import { fill, openShell, PLAN, runHere, type Shell, USER } from '../support/service.ts'

const WINDOW = 'acme test plan p1 window 2026-01-05T00:00:00.000Z'

/** What is done to the file, and what check must say: the kind of finding and the row. E is the filled execution. */
const FAULTS: Record<string, { sql: string; found: [kind: string, subject: string][] }> = {
  'a trade that was made smaller': {
    sql: 'update trades set usd_amount = usd_amount - 1',
    found: [
      ['window_spent', WINDOW],
      ['trade_changed', 'trade E'],
    ],
  },
  'a trade above its reservation, with the ledger bent to fit': {
    sql: `update trades set usd_amount = 2000000000; update windows set spent = 2000000000;
      update schedules set fireable = fireable - 1000000000`,
    found: [
      ['trade_amount', 'execution E'],
      ['trade_changed', 'trade E'],
    ],
  },
  'an excess that no operator brought about': {
    sql: 'update windows set excess = 100000000, spent = spent - 100000000; update schedules set fireable = fireable + 100000000',
    found: [['window_excess', WINDOW]],
  },
  'a trade in another month': {
    sql: 'update trades set recorded_at = recorded_at + 3000000000',
    found: [['trade_changed', 'trade E']],
  },
  'a fee that was struck out': {
    sql: 'update trades set partner_fee_usd = null',
    found: [['trade_changed', 'trade E']],
  },
  'a trade with another price': {
    sql: 'update trades set execution_price = execution_price + 1',
    found: [['trade_changed', 'trade E']],
  },
  'a trade that was deleted': {
    sql: 'delete from trades',
    found: [
      ['window_spent', WINDOW],
      ['execution_trade', 'execution E'],
    ],
  },
  'a window that spent more': {
    sql: 'update windows set spent = spent + 100000000',
    found: [
      ['window_spent', WINDOW],
      ['schedule', WINDOW],
    ],
  },
  'a window that reserved less': {
    sql: 'update windows set reserved = 0',
    found: [
      ['window_reserved', WINDOW],
      ['schedule', WINDOW],
    ],
  },
  'a window that spent more than its budget': {
    sql: 'update windows set budget = 100000000; update schedules set budget = 100000000',
    found: [
      ['integrity', 'database'],
      ['window_budget', WINDOW],
      ['schedule', WINDOW],
      ['schedule_follows', WINDOW],
      ['row_changed', 'windows row 1'],
      ['row_changed', 'schedules row 1'],
    ],
  },
  'money that the schedule would fire twice': {
    sql: 'update schedules set fireable = fireable + 1000000',
    found: [['schedule', WINDOW]],
  },
  'an open execution that was deleted': {
    sql: "delete from executions where status = 'sent'",
    found: [['window_reserved', WINDOW]],
  },
  'a fill turned into an open execution': {
    sql: "update executions set status = 'sent' where execution_id = 'E'",
    found: [
      ['window_reserved', WINDOW],
      ['execution_trade', 'execution E'],
    ],
  },
  'an execution without a cancellation or a report': {
    sql: "update executions set status = 'cancelled' where status = 'sent'",
    found: [
      ['window_reserved', WINDOW],
      ['execution_trade', 'execution O'],
    ],
  },
  'a plan cancelled by hand': {
    sql: "update plans set status = 'cancelled'",
    found: [
      ['plan_window', 'acme test plan p1'],
      ['execution_open', 'execution O'],
      ['schedule_follows', WINDOW],
    ],
  },
  'a user disabled by hand': {
    sql: "update users set status = 'disabled'",
    found: [
      ['execution_open', 'execution O'],
      ['plan_user', 'acme test plan p1'],
      ['row_changed', 'users row 1'],
    ],
  },
  'an execution moved to the other environment': {
    sql: `update executions set tenant_id = (select tenant_id from tenants where environment = 'live')
      where execution_id = 'E'`,
    found: [
      ['execution_place', 'execution E'],
      ['row_changed', 'execution E'],
    ],
  },
  'an execution that no poll would find': {
    sql: 'delete from open_counts',
    found: [['open_count', 'acme test']],
  },
  'a row whose parent is gone': {
    sql: "insert into consents values (99, 12345, 'v1', 0, 0, 0)",
    found: [
      ['foreign_key', 'consents row 99'],
      ['row_changed', 'consents row 99'],
    ],
  },
}

for (const [what, { sql, found }] of Object.entries(FAULTS)) {
  test(`check finds ${what}`, async (t) => {
    const { shell, filled, open } = await withTrade(t)
    const real = (text: string) => text.replace(/\bE\b/, filled).replace(/\bO\b/, open)
    tamper(shell, real(sql))
    const { code, out, err } = await shell.tranche(['check', '--json'])
    assert.deepEqual([code, err], [3, ''])
    const answer = JSON.parse(out)
    assert.equal(answer.ok, false)
    const faults: Finding[] = answer.findings.filter(({ level }: Finding) => level === 'error')
    const seen = faults.map(({ kind, subject }) => [kind, subject])
    assert.deepEqual(
      seen,
      found.map(([kind, subject]) => [kind, real(subject)]),
    )
    const words = await shell.tranche(['check'])
    assert.equal(words.code, 3)
    for (const { subject, message, mend } of faults) {
      for (const said of [subject, message, mend]) assert.ok(words.out.includes(said), said)
      if (mend.endsWith(' restore BACKUP')) continue
      const [, ...argv] = mend.split(' ')
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

test('check is content with what the service wrote', async (t) => {
  const { shell } = await withTrade(t)
  assert.deepEqual(await shell.tranche(['check']), { code: 0, out: 'ok\n', err: '' })
  assert.deepEqual(await shell.tranche(['check', '--strict']), { code: 0, out: 'ok\n', err: '' })
})

test('what check says to run names the database that --db has named', async (t) => {
  const shell = openShell(t)
  const folder = join(shell.folder, "a copy's")
  mkdirSync(folder)
  const copy = join(folder, 'x.db')
  await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  await shell.tranche(['backup', copy])
  const findings = async (...first: string[]) => {
    const { out } = await runHere([...first, 'check', '--json'], { machine: shell.machine })
    return (JSON.parse(out) as { findings: Finding[] }).findings.map(({ mend }) => mend)
  }
  const db = new SQLite(copy)
  db.exec('insert into price_imports values (1, 100000000)')
  db.close()
  const quoted = `'${copy.replace("'", "'\\''")}'`
  assert.deepEqual(await findings('--db', copy), [`tranche --db ${quoted} price import FILE`])
  process.env.TRANCHE_DB = copy
  t.after(() => delete process.env.TRANCHE_DB)
  assert.deepEqual(await findings(), ['tranche price import FILE'])
})

type Finding = { level: string; kind: string; subject: string; message: string; mend: string }

type Traded = { copy: string; filled: string; open: string; laterMs: number }
let traded: Promise<Traded> | undefined

/** One plan with a filled execution and one that is delivered and still open; made once, and copied for each test. */
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
    const answer = await shell.call(method, `/partner/v1/${path}`, out.trim(), body && JSON.stringify(body))
    assert.equal(answer.status, 200, answer.text)
    return JSON.parse(answer.text)
  }
  await call('POST', 'users', USER)
  await call('POST', 'plans', PLAN)
  await shell.tranche(['tick', '--price', '60000'])
  const [{ execution_id: filled }] = await call('GET', 'executions/due')
  await call('POST', `executions/${filled}/confirm`, {
    ...fill('o1', '10.00'),
    btc_amount: '0.00016667',
    partner_fee_usd: '0.05',
  })
  const laterMs = 8 * 3_600_000
  shell.advance(laterMs)
  await shell.tranche(['tick', '--price', '60000'])
  const [{ execution_id: open }] = await call('GET', 'executions/due')
  assert.equal((await shell.tranche(['check'])).code, 0)
  const copy = join(folderOfProcess(), 'traded.db')
  assert.equal((await shell.tranche(['backup', copy])).code, 0)
  return { copy, filled, open, laterMs }
}

/** Changes rows as somebody with the file and a SQLite shell could. */
function tamper(shell: Shell, sql: string): void {
  const db = new SQLite(shell.file)
  db.pragma('foreign_keys = off')
  db.pragma('ignore_check_constraints = on')
  db.exec(sql)
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
