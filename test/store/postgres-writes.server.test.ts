// Writes on PostgreSQL whose connection or server fails at any point: the work is done once or not at all, and the
// outcome is known.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openStore } from '../../src/store/postgres/open.ts'
import { type Connection, connect, type WriteTx } from '../../src/store/postgres/server/connection.ts'
import { migrate } from '../../src/store/postgres/server/migrate.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { query } from '../../src/store/statement.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import {
  assertNotToldAlone,
  ourPair,
  ourServer,
  ownDatabase,
  proxyTo,
  runServer,
  type Server,
  startServer,
  startStandby,
} from '../support/postgres-server.ts'
import { until } from '../support/within.ts'
import { besideStore } from './postgres.ts'
import { AUDIT, each, enrolAll, filled, link, plansNamed, poll, populate, report, T0, tick } from './world.ts'

const MARK = query('insert into marks (mark) values (:mark)')
const WRONG = query('select 1 / 0')
const XID = query<{ xid: string }>('select pg_current_xact_id()::text as xid')
const IMPATIENT = query('set local idle_in_transaction_session_timeout = 50')
const PID = query<{ pid: bigint }>('select pg_backend_pid() as pid')

const MARKS = 'create table tranche.marks (mark bigint)'

function connectTo(t: TestContext, url: string, max?: number): Connection {
  const connection = connect(openPool(url, max === undefined ? {} : { max }), url, null)
  t.after(() => connection.close().catch(() => {}))
  return connection
}

/** A database with a table to write to, reached directly and through a proxy. */
async function stage(t: TestContext) {
  const server = await ourServer()
  const url = await ownDatabase(temporaryFolder(t))
  const database = new URL(url).pathname.slice(1)
  await server.ask(MARKS, database)
  const proxy = await proxyTo(t, server, database)
  const marks = async () =>
    (await server.ask<{ mark: string }>('select mark from tranche.marks', database)).length
  const end = (pid: bigint) => server.ask(`select pg_terminate_backend(${pid})`)
  return { server, url, database, proxy, marks, end }
}

/** Writes a row; answers how often the work was done. */
async function mark(connection: Connection, before = async (_: bigint) => {}): Promise<number> {
  let runs = 0
  await connection.write(async (tx) => {
    runs += 1
    const first = await tx.get(PID)
    if (runs === 1) await before(first?.pid ?? 0n)
    await tx.run(MARK, { mark: 1 })
  })
  return runs
}

test('a connection that ended while it was idle is made anew', async (t) => {
  const { url, marks, end } = await stage(t)
  const connection = connectTo(t, url, 1)
  const seen = await connection.look((tx) => tx.get(PID))
  await end(seen?.pid ?? 0n)
  await mark(connection)
  assert.equal(await marks(), 1)
})

test('a connection that ends inside a transaction: it is done again, and counts once', async (t) => {
  const { url, marks, end } = await stage(t)
  const connection = connectTo(t, url)
  assert.equal(await mark(connection, async (pid) => void (await end(pid))), 2)
  assert.equal(await marks(), 1)
})

test('a transaction that the server ended because its process stood still: it is done again', async (t) => {
  const { proxy, marks } = await stage(t)
  const connection = connectTo(t, proxy.url)
  let runs = 0
  await connection.write(async (tx) => {
    runs += 1
    if (runs === 1) {
      await tx.run(IMPATIENT)
      // Its next statement is on its way before it has read why that is too late.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
    }
    await tx.run(MARK, { mark: 1 })
  })
  assert.deepEqual([runs, await marks()], [2, 1])
})

// Also where the pool has a single connection, which is the one that breaks.
for (const [what, fate, runs] of [
  ['arrived, and whose answer did not: it counts, and is not done again', 'answer lost', 1],
  ['was answered in a way that cannot be read: it counts, and is not done again', 'answer garbled', 1],
  ['never arrived: the server says so, and it is done again', 'never arrives', 2],
] as const)
  test(`a commit that ${what}`, async (t) => {
    const { proxy, marks } = await stage(t)
    for (const [round, max] of [undefined, 1].entries()) {
      const connection = connectTo(t, proxy.url, max)
      const began = performance.now()
      const met = proxy.next(fate)
      assert.equal(await mark(connection), runs)
      await met
      assert.ok(performance.now() - began < 5_000, 'it did not wait for its own place')
      assert.equal(await marks(), round + 1)
    }
  })

test('a commit that is answered with another word than COMMIT has failed', async (t) => {
  const { proxy } = await stage(t)
  const connection = connectTo(t, proxy.url)
  const met = proxy.next('answered with rollback')
  await assert.rejects(mark(connection), /a commit was answered with ROLLBA/)
  await met
})

for (const [what, fail, says] of [
  ['whose failure the work overlooks', (tx) => tx.get(WRONG), /division by zero/],
  ['that could not even be sent', (tx) => tx.run(MARK, {}), /no value for :mark/],
] as [string, (tx: WriteTx) => Promise<unknown>, RegExp][])
  test(`a statement ${what} undoes it all the same`, async (t) => {
    const { url, marks } = await stage(t)
    const work = connectTo(t, url).write(async (tx) => {
      await tx.run(MARK, { mark: 1 })
      await fail(tx).catch(() => {})
    })
    await assert.rejects(work, says)
    assert.equal(await marks(), 0)
  })

/** A server of its own with a table to write to, reached through a proxy. */
async function ownStage(t: TestContext, settings: Record<string, string> = {}) {
  const server = await startServer(settings)
  t.after(server.stop)
  const pool = openPool(server.url('postgres'))
  await migrate(pool, () => 0 as never)
  await pool.end()
  await server.ask(MARKS)
  const proxy = await proxyTo(t, server, 'postgres')
  return { server, proxy, connection: connectTo(t, proxy.url) }
}

/** A server of its own with a standby; a commit is lost on the way, and then `change` takes place. */
async function lostCommit(t: TestContext, change: (server: Server, standby: Server) => Promise<Server>) {
  const { server, proxy, connection } = await ownStage(t, { wal_level: 'replica' })
  const standby = await startStandby(server)
  t.after(standby.stop)
  const met = proxy.next('never arrives', async () => proxy.leadTo(await change(server, standby)))
  const outcome = await mark(connection).then(
    () => null,
    (error: Error) => error,
  )
  await met
  const [row] = await standby.ask<{ marks: string }>('select count(*) as marks from tranche.marks')
  return { outcome, marks: Number(row?.marks) }
}

test('a standby that is promoted in the middle of a commit cannot tell what became of it', async (t) => {
  const { outcome, marks } = await lostCommit(t, async (server, standby) => {
    server.kill('SIGQUIT')
    await standby.ask('select pg_promote()')
    return standby
  })
  assert.equal((outcome as { code?: string } | null)?.code, 'storage_failed')
  assert.equal(marks, 0, 'it was not done again')
  assert.match(outcome?.message ?? '', /went away in the middle of a commit, and it is not known whether/)
})

test('a server that falls over in the middle of a commit, and gives its number to another', async (t) => {
  const { server, proxy, connection } = await ownStage(t)
  // The transaction's writes are only in the memory of the server.
  const [writer] = await server.ask<{ pid: number }>(
    `select pid from pg_stat_activity where backend_type = 'walwriter'`,
  )
  assert.ok(writer)
  process.kill(writer.pid, 'SIGSTOP')
  let xid = 0n
  const met = proxy.next('never arrives', async () => {
    server.kill('SIGQUIT')
    await hasEnded(server)
    const again = await runServer(server.folder)
    t.after(again.stop)
    while ((await nextXid(again)) < xid);
    proxy.leadTo(again)
  })
  const write = connection.write(async (tx) => {
    xid = BigInt((await tx.get(XID))?.xid ?? 0)
    await tx.run(MARK, { mark: 1 })
  })
  await assert.rejects(write, { code: 'storage_failed', message: /it is not known whether/ })
  await met
  const [row] = await server.ask<{ marks: string }>('select count(*) as marks from tranche.marks')
  assert.equal(row?.marks, '0', 'the number was given to another')
})

/** Commits a transaction; answers its number. */
async function nextXid(server: Server): Promise<bigint> {
  const [row] = await server.ask<{ xid: string }>('select pg_current_xact_id()::text as xid')
  return BigInt(row?.xid ?? 0)
}

async function hasEnded({ folder }: Server): Promise<void> {
  while (existsSync(join(folder, 'data/postmaster.pid'))) await new Promise((end) => setTimeout(end, 20))
}

test('a pool whose connections are all in use says so after ten seconds', async (t) => {
  const { url, marks } = await stage(t)
  const connection = connectTo(t, url, 1)
  const done = Promise.withResolvers<void>()
  const first = mark(connection, () => done.promise)
  const began = performance.now()
  const message = /^No connection to postgres:\/\/.* was free or could be made in time: run it again\.$/
  const looked = connection.look((tx) => tx.get(PID))
  await assert.rejects(looked, { code: 'database_locked', message })
  assert.ok(performance.now() - began < 15_000)
  done.resolve()
  // The server has ended a transaction that was idle for so long, so it is repeated.
  assert.ok((await first) <= 2)
  assert.equal(await marks(), 1)
})

// A server that continues under another timeline or system identifier may lack answered writes: the next write freezes
// the database, and reads report that earlier.

const WAIT_MAX_MS = 60_000
const DATABASE = 'ledger'

/** A primary and its standby, and a proxy to the primary, for an unprivileged role. */
async function withStandby(t: TestContext) {
  const primary = await startServer({ wal_level: 'replica' })
  t.after(primary.stop)
  await primary.ask('create role app login')
  await primary.ask(`create database ${DATABASE} owner app`)
  const standby = await startStandby(primary)
  t.after(standby.stop)
  const way = await proxyTo(t, primary, DATABASE)
  const url = way.url.replace('tranche@', 'app@')

  /** Resolves when the standby has everything that the primary has by now. */
  const caughtUp = async (): Promise<void> => {
    const [at] = await primary.ask<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn')
    await until(WAIT_MAX_MS, 'a standby that has caught up', async () => {
      const has = `select pg_last_wal_replay_lsn() >= '${at?.lsn}' as has`
      return (await standby.ask<{ has: boolean }>(has))[0]?.has
    })
  }
  return {
    primary,
    standby,
    way,
    url,
    /** The standby receives nothing from now on. */
    async leaveBehind(): Promise<void> {
      await caughtUp()
      await standby.ask(`alter system set primary_conninfo = ''`)
      await standby.ask('select pg_reload_conf()')
      const isAlone = async () => (await primary.ask('select from pg_stat_replication')).length === 0
      await until(WAIT_MAX_MS, 'a standby that follows nobody', isAlone)
    },
    /** The primary ends, and the standby takes its place, as a recovery to a point in time does. */
    async takeOver(): Promise<void> {
      primary.kill('SIGQUIT')
      await hasEnded(primary)
      await standby.ask('select pg_promote()')
      way.cut()
      way.leadTo(standby)
    },
  }
}

async function storeAt(t: TestContext, url: string, trust = {}): Promise<Store> {
  const store = await openStore(url, { clock: null, create: true, ...trust })
  t.after(() => store.close())
  return store
}

const auditedIn = async (server: Server): Promise<{ action: string; os_user: string }[]> =>
  server.ask(
    `select action, os_user from tranche.audit where action like 'database.%' order by audit_id`,
    DATABASE,
  )

test('with everything stopped first, a recovery to a point in time is noticed all the same', async (t) => {
  const { leaveBehind, takeOver, standby, url } = await withStandby(t)
  const before = await openStore(url, { clock: null, create: true })
  const { acmeLive } = await populate(before)
  await leaveBehind()
  await link(before, acmeLive, 'lost')
  await before.close()
  await takeOver()
  const store = await storeAt(t, url)
  // Reading freezes nothing, and reports what the next write will find.
  const said = await store.readFrozen()
  assert.deepEqual([said?.kind, said?.by], ['timeline', 'tranche'])
  assert.match(said?.reason ?? '', /is on timeline 2, and the last write was made on timeline 1/)
  assert.deepEqual(await standby.ask('select from tranche.frozen', DATABASE), [])
  await assert.rejects(poll(store, acmeLive), { code: 'database_frozen' })
  await assert.rejects(store.beginPass(null), { code: 'database_frozen' })
  assert.equal((await standby.ask('select from tranche.frozen', DATABASE)).length, 1)
  await store.resume(AUDIT)
  await store.beginPass(null)
  assert.deepEqual(each(await auditedIn(standby), 'action'), ['database.freeze'])
})

test('an operator may trust a failover, but only where commits wait for a standby', async (t) => {
  const { primary, url } = await withStandby(t)
  const store = await storeAt(t, url, { trustsFailover: true })
  const { acmeLive } = await populate(store)
  const moveLine = () => primary.ask(`update tranche.server_line set timeline = '00000000'`, DATABASE)
  await moveLine()
  // No commit is waiting, so trustsFailover has no effect.
  await link(store, acmeLive, 'after the first')
  assert.equal((await store.readFrozen())?.kind, 'timeline')
  await store.resume(AUDIT)
  await primary.ask(`alter system set synchronous_standby_names = '*'`)
  await primary.ask('select pg_reload_conf()')
  await moveLine()
  await link(store, acmeLive, 'after the second')
  assert.equal(await store.readFrozen(), null)
  assert.deepEqual((await auditedIn(primary)).map(({ action }) => action).at(-1), 'database.trust_failover')
})

test('another server is noticed by its system identifier, and one that is frozen already stays as it was', async (t) => {
  const { primary, url } = await withStandby(t)
  const store = await storeAt(t, url)
  const { acmeLive } = await populate(store)
  const moveLine = () => primary.ask(`update tranche.server_line set system_id = '1'`, DATABASE)
  await moveLine()
  const { reason } = (await store.readFrozen()) ?? {}
  assert.match(reason ?? '', /another server .* than the one that took the last write \(1\)/)
  await link(store, acmeLive, 'first')
  assert.equal((await store.readFrozen())?.kind, 'timeline')
  await store.resume(AUDIT)
  await store.freeze({ by: 'ops', reason: 'by hand' }, AUDIT)
  await moveLine()
  await link(store, acmeLive, 'second')
  assert.deepEqual((await store.readFrozen())?.reason, 'by hand')
})

test('a crash of the server and its recovery freeze nothing', async (t) => {
  const { primary, way, url } = await withStandby(t)
  const store = await storeAt(t, url)
  const { acmeLive } = await populate(store)
  await link(store, acmeLive, 'before')
  primary.kill('SIGQUIT')
  await hasEnded(primary)
  await primary.again()
  way.cut()
  await link(store, acmeLive, 'after')
  assert.equal(await store.readFrozen(), null)
})

// A commit whose wait for a standby is cancelled: data on one disk alone are not reported as stored.

// The server reports a cancelled commit in a warning: the database sets a level above that, or far below.
for (const [how, ending, heard] of [
  ['its process is ended', 'pg_terminate_backend', 'debug5'],
  ['it is cancelled', 'pg_cancel_backend', 'error'],
] as const)
  test(`a commit that waits for a standby is not told as done when ${how}, until both have it`, async (t) => {
    const pair = await ourPair()
    await pair.primary.ask(`create database ${ending}`)
    await pair.primary.ask(`alter database ${ending} set client_min_messages = ${heard}`)
    const store = await openStore(pair.primary.url(ending), { clock: () => T0, create: true })
    t.after(() => store.close())
    const { acme } = await populate(store)
    await assertNotToldAlone(t, pair, ending, (holdBack) => {
      holdBack()
      return link(store, acme)
    })
  })

test('the schema of a new database is not told as made on one disk alone', async (t) => {
  const pair = await ourPair()
  await pair.primary.ask('create database new')
  await assertNotToldAlone(t, pair, 'pg_cancel_backend', async (holdBack) => {
    holdBack()
    const store = await openStore(pair.primary.url('new'), { clock: () => T0, create: true })
    await store.close()
  })
})

test('confirmations of a key that arrive together share a transaction', async (t) => {
  const beside = await besideStore(t)
  const { store, acme, pool } = beside
  await enrolAll(store, acme, plansNamed(50))
  await tick(beside, '60000')
  const due = await poll(store, acme)
  await Promise.all(due.map(({ executionId, amount }) => report(store, acme, executionId, filled(amount))))
  const { rows } = await pool.query(
    'select count(*) as trades, count(distinct xmin::text) as transactions from trades',
  )
  assert.deepEqual(rows, [{ trades: 50n, transactions: 1n }])
})

test('an error that one confirmation meets is not that of the others in its group', async (t) => {
  const beside = await besideStore(t)
  const { store, acme, pool } = beside
  await enrolAll(store, acme, plansNamed(5))
  await tick(beside, '60000')
  const due = await poll(store, acme)
  // Imitates a deadlock at this one report.
  await pool.query(
    `create function fail() returns trigger language plpgsql as
       $$ begin raise exception sqlstate '40P01' using message = 'deadlock detected'; end $$;
     create trigger fail before insert on trades for each row
       when (new.partner_order_id = 'o2') execute function fail()`,
  )
  const outcomes = await Promise.allSettled(
    due.map(({ executionId, amount }, i) => report(store, acme, executionId, filled(amount, `o${i}`))),
  )
  const made = outcomes.map((one) => (one.status === 'fulfilled' ? one.value.kind : one.reason.code))
  assert.deepEqual(made, ['recorded', 'recorded', 'database_locked', 'recorded', 'recorded'])
})
