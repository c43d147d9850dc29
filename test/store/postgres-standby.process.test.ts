// Whose wait for a standby is ended by somebody: what is on one disk alone is not told as done.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { openStore } from '../../src/store/postgres/open.ts'
import { type Server, startServer, startStandby } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { link, populate, T0 } from './world.ts'

const WAITS = `select pid from pg_stat_activity where wait_event = 'SyncRep' and application_name = 'tranche'`

/** A primary whose commits wait for its standby. */
async function primaryOf(t: TestContext): Promise<Server> {
  const primary = await startServer()
  t.after(primary.stop)
  const standby = await startStandby(primary, { cluster_name: 'b' })
  t.after(standby.stop)
  await until(async () => (await primary.ask('select 1 from pg_stat_replication')).length > 0)
  return primary
}

async function until(look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000
  while (!(await look())) {
    assert.ok(performance.now() < end, `never: ${look}`)
    await pause(20)
  }
}

// The server tells of a commit that was cancelled in a warning: the role asks for less than that, or for much more.
for (const [how, sql, heard] of [
  ['its process is ended', 'select pg_terminate_backend(pid)', 'debug5'],
  ['it is cancelled', 'select pg_cancel_backend(pid)', 'error'],
] as const)
  test(`a commit that waits for a standby is not told as done when ${how}, until both have it`, async (t) => {
    if (!hasTool(t, 'postgres')) return
    const primary = await primaryOf(t)
    await primary.ask(`alter role tranche set client_min_messages = ${heard}`)
    const store = await openStore(primary.url('postgres'), { clock: () => T0, create: true })
    t.after(() => store.close())
    const { acme } = await populate(store)
    await primary.ask(`alter system set synchronous_standby_names = '*'`)
    await primary.ask('select pg_reload_conf()')
    await until(
      async () =>
        (await primary.ask(`select 1 from pg_stat_replication where sync_state = 'sync'`)).length > 0,
    )
    await link(store, acme, 'u0')

    const goOn = await stopSending(primary)
    let told = ''
    const linked = link(store, acme, 'u1').then(
      () => (told = 'done'),
      (error: Error) => (told = error.message),
    )
    await until(async () => (await primary.ask(WAITS)).length > 0)
    await primary.ask(`${sql} from (${WAITS}) w`)
    // Somebody waits again, or has been told that nobody knows.
    await until(async () => told !== '' || (await primary.ask(WAITS)).length > 0)
    assert.notEqual(told, 'done')
    goOn()
    await linked
    assert.equal(told, 'done')
  })

/** Stops the process that sends the log to the standby; returns how it goes on. */
async function stopSending(primary: Server): Promise<() => void> {
  const [row] = await primary.ask<{ pid: number }>('select pid from pg_stat_replication')
  assert.ok(row)
  process.kill(row.pid, 'SIGSTOP')
  return () => process.kill(row.pid, 'SIGCONT')
}
