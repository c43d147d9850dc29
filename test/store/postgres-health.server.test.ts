// Features of a server: counts that continue while others write, and the check's findings and warnings on a server of
// its own.

import assert from 'node:assert/strict'
import { closeSync, existsSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { commandLine } from '../../src/cli/command.ts'
import { MINUTE_MS, plus } from '../../src/core/time.ts'
import { createMetrics } from '../../src/http/ops/metrics.ts'
import { createReadiness } from '../../src/http/ops/readiness.ts'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { connect } from '../../src/store/postgres/server/connection.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { query } from '../../src/store/statement.ts'
import type { Store } from '../../src/store/store.ts'
import { ofTenant } from '../../src/store/transaction.ts'
import { failureNamed, firing, isPrinted, valuesOf } from '../guides/failures.ts'
import { runServer, type Server, startServer, startStandby } from '../support/postgres-server.ts'
import { runHere } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { until } from '../support/within.ts'
import { besideStore } from './postgres.ts'
import { afterFirst, enrol, T0, tick } from './world.ts'

const COPY = query(
  `insert into executions select (jsonb_populate_record(e, jsonb_build_object('execution_id', :id::text, 'tranche_index', 7))).*
   from executions e limit 1`,
)

test('a count of executions leaves out none that commits late, and counts none twice', async (t) => {
  const world = await besideStore(t)
  const { url, store, acme, machine } = world
  const other = connect(openPool(url), url, () => T0)
  t.after(() => other.close())
  await afterFirst(world)
  const { executionId } = await store.readMarks()
  assert.ok(executionId)
  // Another host has taken an id, and has not yet committed it.
  const lower = executionId.replace(/.{4}$/, 'ffff')
  const [held, entered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const late = other.write(async (tx) => {
    await tx.entered
    await tx.run(COPY, { id: lower })
    entered.resolve()
    await held.promise
  }, ofTenant(acme))
  await entered.promise
  await enrol(store, acme, { partnerUserId: 'u2', partnerPlanId: 'p2' })
  world.setClock(plus(T0, MINUTE_MS))
  await tick({ store, machine }, '60000')
  const meanwhile = await store.countExecutionsAfter(executionId)
  assert.deepEqual(meanwhile, { created: { test: 0, live: 0 }, last: executionId })
  held.resolve()
  await late
  const after = await store.countExecutionsAfter(executionId)
  assert.deepEqual(after.created, { test: 2, live: 0 })
  assert.deepEqual((await store.countExecutionsAfter(after.last)).created, { test: 0, live: 0 })
})

test('the check finds what a server without foreign keys and indexes would not tell', async (t) => {
  const world = await besideStore(t)
  const { store, pool } = await afterFirst(world)
  assert.deepEqual(await store.findFaults(), [])
  const client = await pool.connect()
  await client.query('set session_replication_role = replica')
  await client.query(`update pg_index set indisvalid = false where indexrelid = 'prices_pkey'::regclass`)
  await client.query('update executions set window_id = 999')
  client.release(true)
  const faults = await store.findFaults()
  const of = (kind: string) => faults.filter((one) => one.kind === kind).map(({ subject }) => subject)
  assert.deepEqual(of('integrity'), ['index prices_pkey'])
  assert.equal(of('foreign_key').length, 1)
  assert.match(of('foreign_key')[0] ?? '', /^executions row exec_/)
})

test('the check warns of nothing on a server that never had a standby', async (t) => {
  const { store } = await besideStore(t)
  assert.deepEqual(await store.findWarnings(), [])
})

// Warnings of the check on a server of its own: each is caused by real data, and gone when it is mended.

const DATABASE = 'postgres'
const WAIT_MAX_MS = 60_000

/** A store whose clock is so far ahead of the server's. */
async function openOn(t: TestContext, server: Server, user = 'tranche') {
  let ahead = 0
  const clock = () => plus(machine.clock(), ahead)
  const store = await openStore(server.url(DATABASE, user), { clock, create: true })
  t.after(() => store.close())
  const found = async (kind: string) => (await store.findWarnings()).filter((one) => one.kind === kind)
  return { store, found, setAhead: (ms: number) => (ahead = ms) }
}

const faultsOf = async (store: Store) =>
  (await store.findFaults()).map(({ kind, subject, message }) => `${kind}: ${subject} ${message}`)

test('the standby is away', async (t) => {
  const server = await startServer()
  t.after(server.stop)
  const { store, found } = await openOn(t, server)
  const standby = await startStandby(server, { cluster_name: 'b' })
  t.after(standby.stop)
  // Set explicitly: the primary_conninfo that pg_basebackup writes has no application_name.
  await standby.ask(
    `alter system set primary_conninfo = 'host=${server.folder} user=tranche application_name=b'`,
  )
  await standby.ask('select pg_reload_conf()')
  await server.ask(`alter system set synchronous_standby_names = 'b'`)
  await server.ask('select pg_reload_conf()')
  const standbys = (where = 'true') => server.ask(`select 1 from pg_stat_replication where ${where}`)
  await until(WAIT_MAX_MS, 'a standby that counts', async () => (await standbys(`sync_state = 'sync'`))[0])
  // A write has waited for it: its absence is reported from then on.
  await store.probeWrite()
  assert.deepEqual(await found('standby_away'), [])
  standby.kill('SIGKILL')
  await until(WAIT_MAX_MS, 'no standby', async () => (await standbys()).length === 0)
  const [away] = await found('standby_away')
  assert.match(away?.message ?? '', /synchronous_standby_names = b.*no commit ends$/)
  // A write that waits for it does not wait for a lock.
  const { reasons } = await createReadiness()(store)
  assert.equal(reasons.length, 1)
  const why = /^The server of the database waits for a standby \(.* = b\).*no commit ends\.$/
  assert.match(reasons[0] ?? '', why)
  const row = failureNamed('the standby is away')
  const metrics = () => createMetrics().read(store)
  const promtool = hasTool(t, 'promtool')
  const text = await metrics()
  assert.deepEqual(valuesOf(text, row), [1, 0])
  if (promtool) assert.deepEqual(firing(t, text, row), [row.alert])
  const [finding] = await found(row.code)
  assert.ok(isPrinted(commandLine('tranche', finding?.next ?? []), row), String(finding?.next))
  assert.match((await runHere(finding?.next.slice(1) ?? [])).out, /synchronous_standby_names/)
  await server.ask(`alter system reset synchronous_standby_names`)
  await server.ask('select pg_reload_conf()')
  // Nothing waits any more, and there is only one disk.
  const severities = async () => (await found(row.code)).map(({ severity }) => severity)
  await until(WAIT_MAX_MS, 'writes that end', async () => String(await severities()) === 'ticket')
  if (promtool) assert.deepEqual(firing(t, await metrics(), row), ['TrancheTicket'])
  // A standby that counts again ends the finding.
  await standby.again()
  await server.ask(`alter system set synchronous_standby_names = 'b'`)
  await server.ask('select pg_reload_conf()')
  await until(WAIT_MAX_MS, 'one that follows again', async () => (await found(row.code)).length === 0)
  if (promtool) assert.deepEqual(firing(t, await metrics(), row), [])
})

test('the check finds pages that came back changed', async (t) => {
  const settings = { autovacuum: 'off' }
  const first = await startServer(settings)
  t.after(first.stop)
  await (await openOn(t, first)).store.close()
  await first.ask('create table other as select n from generate_series(1, 100) n', DATABASE)
  const [row] = await first.ask<{ path: string }>(`select pg_relation_filepath('other') as path`, DATABASE)
  await halt(first)

  const data = join(first.folder, 'data')
  const file = openSync(join(data, row?.path ?? ''), 'r+')
  writeSync(file, Buffer.from('garbage'), 0, 7, 4_000)
  closeSync(file)

  const server = await runServer(first.folder, settings)
  t.after(server.stop)
  const { store } = await openOn(t, server)
  assert.deepEqual(await faultsOf(store), [])
  await assert.rejects(server.ask('select count(*) from other', DATABASE), /invalid page/)
  assert.deepEqual(await faultsOf(store), [
    `integrity: database ${DATABASE} 1 of its pages did not have the checksum they were written with`,
  ])
})

/** Stops it cleanly, and leaves its data. */
async function halt({ folder, kill }: Server): Promise<void> {
  const note = join(folder, 'data/postmaster.pid')
  kill('SIGINT')
  await until(WAIT_MAX_MS, 'the end of the server', () => !existsSync(note))
}
