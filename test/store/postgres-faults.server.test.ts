// A connection to PostgreSQL that fails at each point of a write: what was asked is done once or not at all, and who
// asked is told which.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type Connection, connect } from '../../src/store/postgres/server/connection.ts'
import { migrate } from '../../src/store/postgres/server/migrate.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { query } from '../../src/store/statement.ts'
import { temporaryFolder } from '../support/database.ts'
import {
  ourServer,
  ownDatabase,
  proxyTo,
  runServer,
  type Server,
  startServer,
  startStandby,
} from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'

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

/** A database with a table to write to, straight and through a proxy. */
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
  if (!hasTool(t, 'postgres')) return
  const { url, marks, end } = await stage(t)
  const connection = connectTo(t, url, 1)
  const seen = await connection.look((tx) => tx.get(PID))
  await end(seen?.pid ?? 0n)
  await mark(connection)
  assert.equal(await marks(), 1)
})

test('a connection that ends inside a transaction: it is done again, and counts once', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { url, marks, end } = await stage(t)
  const connection = connectTo(t, url)
  assert.equal(await mark(connection, async (pid) => void (await end(pid))), 2)
  assert.equal(await marks(), 1)
})

test('a transaction that the server ended because its process stood still: it is done again', async (t) => {
  if (!hasTool(t, 'postgres')) return
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

test('a commit that arrived, and whose answer did not: it counts, and is not done again', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { proxy, marks } = await stage(t)
  const connection = connectTo(t, proxy.url)
  const met = proxy.next('answer lost')
  assert.equal(await mark(connection), 1)
  await met
  assert.equal(await marks(), 1)
})

test('a commit whose answer cannot be read: it counts, and is not done again', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { proxy, marks } = await stage(t)
  const connection = connectTo(t, proxy.url)
  const met = proxy.next('answer garbled')
  assert.equal(await mark(connection), 1)
  await met
  assert.equal(await marks(), 1)
})

test('a commit that never arrived: the server says so, and it is done again', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { proxy, marks } = await stage(t)
  const connection = connectTo(t, proxy.url)
  const met = proxy.next('never arrives')
  assert.equal(await mark(connection), 2)
  await met
  assert.equal(await marks(), 1)
})

test('every connection of a pool that breaks in a commit: what became of it is known all the same', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { proxy, marks } = await stage(t)
  const connection = connectTo(t, proxy.url, 1)
  for (const [fate, runs] of [
    ['answer lost', 1],
    ['never arrives', 2],
  ] as const) {
    const began = performance.now()
    const met = proxy.next(fate)
    assert.equal(await mark(connection), runs)
    await met
    assert.ok(performance.now() - began < 5_000, 'it did not wait for its own place')
  }
  assert.equal(await marks(), 2)
})

test('a commit that is answered with another word than COMMIT has failed', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { proxy } = await stage(t)
  const connection = connectTo(t, proxy.url)
  const met = proxy.next('answered with rollback')
  await assert.rejects(mark(connection), /a commit was answered with ROLLBA/)
  await met
})

test('a statement whose failure the work overlooks undoes it all the same', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { url, marks } = await stage(t)
  const connection = connectTo(t, url)
  const work = connection.write(async (tx) => {
    await tx.run(MARK, { mark: 1 })
    await tx.get(WRONG).catch(() => {})
  })
  await assert.rejects(work, /division by zero/)
  assert.equal(await marks(), 0)
})

test('a statement that could not even be sent undoes it as well', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { url, marks } = await stage(t)
  const connection = connectTo(t, url)
  const work = connection.write(async (tx) => {
    await tx.run(MARK, { mark: 1 })
    tx.unwaited(tx.run(MARK, {}))
  })
  await assert.rejects(work, /no value for :mark/)
  const another = connection.write(async (tx) => {
    tx.unwaited(Promise.reject(new Error('no row to send')))
    await tx.run(MARK, { mark: 1 })
  })
  await assert.rejects(another, /no row to send/)
  assert.equal(await marks(), 0)
})

/** A server of its own with a standby; a commit is lost on the way, and then `change` takes place. */
async function lostCommit(t: TestContext, change: (server: Server, standby: Server) => Promise<Server>) {
  const server = await startServer({ wal_level: 'replica' })
  t.after(server.stop)
  const url = server.url('postgres')
  const pool = openPool(url)
  await migrate(pool, () => 0 as never)
  await pool.end()
  await server.ask(MARKS)
  const standby = await startStandby(server)
  t.after(standby.stop)
  const proxy = await proxyTo(t, server, 'postgres')
  const connection = connectTo(t, proxy.url)
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
  if (!hasTool(t, 'postgres')) return
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
  if (!hasTool(t, 'postgres')) return
  const server = await startServer()
  t.after(server.stop)
  const pool = openPool(server.url('postgres'))
  await migrate(pool, () => 0 as never)
  await pool.end()
  await server.ask(MARKS)
  const proxy = await proxyTo(t, server, 'postgres')
  const connection = connectTo(t, proxy.url)
  // What the transaction has written is in the memory of the server, and nowhere else.
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
  if (!hasTool(t, 'postgres')) return
  const { url, marks } = await stage(t)
  const connection = connectTo(t, url, 1)
  const done = Promise.withResolvers<void>()
  const first = mark(connection, () => done.promise)
  const began = performance.now()
  await assert.rejects(
    connection.look((tx) => tx.get(PID)),
    {
      code: 'database_locked',
      message: /^No connection to postgres:\/\/.* was free or could be made in time: run it again\.$/,
    },
  )
  assert.ok(performance.now() - began < 15_000)
  done.resolve()
  // The server has ended what stood still for so long, so it is done again.
  assert.ok((await first) <= 2)
  assert.equal(await marks(), 1)
})
