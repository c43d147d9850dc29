// A commit counts once the standby has it: what only the primary has is lost when the standby takes over, so nobody is told
// that it is recorded.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/store/postgres/server/connection.ts'
import { migrate } from '../../src/store/postgres/server/migrate.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { query } from '../../src/store/postgres/server/statement.ts'
import { type Server, startServer, startStandby } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'

const MARK = query('insert into marks (mark) values (1)')
const NAMED = { cluster_name: 'pair', synchronous_standby_names: 'pair', wal_level: 'replica' }

/** A primary whose standby stands still when `standby` says so, and a connection to it. */
async function stage(t: TestContext) {
  const primary = await startServer(NAMED)
  const standby = await startStandby(primary, NAMED)
  const pool = openPool(primary.url('postgres'))
  await migrate(pool, 0 as never)
  await primary.ask('create table tranche.marks (mark bigint)')
  const connection = connect(pool, primary.url('postgres'), null)
  const send = (signal: NodeJS.Signals) => {
    for (const pid of processesOf(standby)) process.kill(pid, signal)
  }
  t.after(async () => {
    send('SIGCONT')
    await connection.close().catch(() => {})
    await Promise.all([primary.stop(), standby.stop()])
  })
  return { primary, standby, connection, send }
}

function processesOf({ folder }: Server): number[] {
  const [first = ''] = readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n')
  const others = execFileSync('pgrep', ['-P', first], { encoding: 'utf8' }).trim().split('\n')
  return [first, ...others].map(Number)
}

const WAITING = `pg_stat_activity where wait_event = 'SyncRep'`

/** How often it is looked before something must be so: a minute. */
const LOOKS_MAX = 600

async function holds(isSo: () => Promise<boolean>): Promise<void> {
  for (let looks = 0; !(await isSo()); looks++) {
    assert.ok(looks < LOOKS_MAX, 'it never happened')
    await pause(100)
  }
}

test('a commit whose session was ended while it waited for the standby is recorded when the standby has it', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { primary, connection, send } = await stage(t)
  send('SIGSTOP')
  let told = false
  let runs = 0
  const write = connection
    .write(async (tx) => {
      runs += 1
      await tx.run(MARK)
    })
    .finally(() => {
      told = true
    })
  write.catch(() => {})
  const waiting = async () => (await primary.ask(`select 1 from ${WAITING}`)).length > 0
  await holds(waiting)
  await primary.ask(`select pg_terminate_backend(pid) from ${WAITING}`)
  // It stands on the primary by now, and the one who asks after it waits in its turn.
  const marks = async () => (await primary.ask('select 1 from tranche.marks')).length
  await holds(async () => (await marks()) === 1 && (told || (await waiting())))
  assert.equal(told, false)
  send('SIGCONT')
  await write
  assert.deepEqual([runs, await marks()], [1, 1])
})
