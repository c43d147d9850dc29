// A primary whose commits wait for its standby, and somebody who ends such a wait: then what was to be committed is on
// one disk alone, and the server calls it a success.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { type Server, startServer, startStandby } from './postgres-server.ts'
import { until } from './within.ts'

const WAIT_MAX_MS = 60_000

export type Pair = {
  primary: Server
  /** Has commits wait from now on, from one statement to the next. Returns how they go on. */
  holdBack: () => () => void
  /** Resolves when a commit of ours waits, another than those that were seen before, or `isOver`. */
  waits: (isOver?: () => boolean) => Promise<void>
  /** Ends the wait that was seen last. */
  endWait: (how: 'pg_cancel_backend' | 'pg_terminate_backend') => Promise<void>
}

let running: Promise<Pair> | undefined

/** Both of this process; they are started when they are first asked for, and end with it. */
export function ourPair(): Promise<Pair> {
  running ??= startPair()
  return running
}

async function startPair(): Promise<Pair> {
  const primary = await startServer()
  await startStandby(primary, { cluster_name: 'b' })
  await primary.ask(`alter system set synchronous_standby_names = '*'`)
  await primary.ask('select pg_reload_conf()')
  const senders = () =>
    primary.ask<{ pid: number }>(`select pid from pg_stat_replication where sync_state = 'sync'`)
  await until(WAIT_MAX_MS, 'a standby that counts', async () => (await senders()).length > 0)
  const [sender] = await senders()
  assert.ok(sender)
  const seen = new Set<string>()
  let last: number | undefined
  return {
    primary,
    holdBack() {
      process.kill(sender.pid, 'SIGSTOP')
      return () => process.kill(sender.pid, 'SIGCONT')
    },
    waits: (isOver = () => false) =>
      until(WAIT_MAX_MS, 'a commit that waits', async () => {
        const waiting = await primary.ask<{ pid: number; statement: string }>(WAITING)
        const found = waiting.find(({ statement }) => !seen.has(statement))
        if (found) seen.add(found.statement)
        last = found?.pid
        return found || isOver()
      }),
    async endWait(how) {
      await primary.ask(`select ${how}(${last})`)
    },
  }
}

/** A process of the server has begun each of its statements at another moment. */
const WAITING = `select pid, pid || ' ' || query_start as statement from pg_stat_activity
  where wait_event = 'SyncRep' and application_name = 'tranche'`

type Followed = { told: () => string; isOver: () => boolean; ended: Promise<void> }

/** What became of some work by now: '' while it goes on, 'done', or why it failed. */
export function followed(work: Promise<unknown>): Followed {
  let told = ''
  const ended = work.then(
    () => {
      told = 'done'
    },
    (error: Error) => {
      told = error.message
    },
  )
  return { told: () => told, isOver: () => told !== '', ended }
}

/** Fails when the work is told as done before the standby has what it committed, whose wait somebody ends. */
export async function assertNotToldAlone(
  t: Pick<TestContext, 'after'>,
  { holdBack, waits, endWait }: Pair,
  how: Parameters<Pair['endWait']>[0],
  start: (holdBack: () => void) => Promise<unknown>,
): Promise<void> {
  let goOn = () => {}
  t.after(() => goOn())
  const isHeld = Promise.withResolvers<void>()
  const { told, isOver, ended } = followed(
    start(() => {
      goOn = holdBack()
      isHeld.resolve()
    }),
  )
  // Before that a commit waits as well, for a moment.
  await Promise.race([isHeld.promise, ended])
  await waits(isOver)
  assert.equal(told(), '')
  await endWait(how)
  // Somebody waits again, or has been told.
  await waits(isOver)
  assert.equal(told(), '')
  goOn()
  await ended
  assert.equal(told(), 'done')
}
