// The machines beside the database: four that serve, and four that tick, two of them in a loop as cron would.

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from '../../support/free-port.ts'
import { type Started, start } from '../../support/process.ts'
import { until, within } from '../../support/within.ts'

export type Host = {
  name: string
  /** Empty for one that only ticks. */
  url: string
  child: () => Started['child']
  /** Until when it was last dead or stopped by a test, on the clock of `performance`. */
  disturbedAt: number
  /** Kills it; answers whether there was something to kill. It starts anew while the rounds go on. */
  kill: () => Promise<boolean>
  /** Resolves when it is at work. */
  ready: () => Promise<void>
  /** Throws when it has ended by itself, or said what no host should say. */
  assertSound: () => void
  /** The last it has said on stderr. */
  said: () => string
  /** Ends it as an operator would; does not throw for how it ended when something has `failed` before. */
  end: (failed: boolean) => Promise<void>
}

export type Place = { folder: string; db: string; follow: (started: Started) => Started }

const SAID_MAX = 3_000
const START_MAX_MS = 90_000
const END_MAX_MS = 60_000
const FEED = ['--price-feed', 'static:60000']
/** What a log or a command says of a mistake in the program, and never of a database that is away. */
const BUG =
  /"err":\{"type":"(?!Problem|OutcomeUnknown)|Internal Server Error|^\s+at .*:\d+:\d+|"plans_failed":[1-9]/m

/** Starts a service that is started anew, on the same port, whenever it is killed. */
export async function startService(name: string, place: Place, argv: readonly string[]): Promise<Host> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const begin = (): Started =>
    place.follow(
      start(NEVER, ['serve', '--port', String(port), '--log-level', 'warn', ...argv], {
        cwd: place.folder,
        env: { TRANCHE_DB: place.db },
      }),
    )
  let started = begin()
  // One that finds no database at its start says so and ends: what runs it, systemd say, starts it again.
  const isReady = () =>
    until(START_MAX_MS, `${name} is ready`, async () => {
      if (started.hasEnded()) {
        assert.match(started.err(), /^error: .+$/m)
        assert.doesNotMatch(started.err(), BUG)
        started = begin()
      }
      return (await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(START_MAX_MS) })).ok
    })
  const assertRuns = () => assert.ok(!started.hasEnded(), `${name} has ended: ${started.err()}`)
  let ready = isReady()
  await ready
  const host: Host = {
    name,
    url,
    child: () => started.child,
    disturbedAt: Number.NEGATIVE_INFINITY,

    async kill() {
      await ready
      assertRuns()
      host.disturbedAt = Number.POSITIVE_INFINITY
      started.child.kill('SIGKILL')
      await within(END_MAX_MS, `${name} is dead`, started.ended)
      started = begin()
      ready = isReady().then(() => {
        host.disturbedAt = performance.now()
      })
      // The caller that waits for it learns what went wrong.
      ready.catch(() => {})
      return true
    },

    ready: () => ready,
    said: () => started.err().slice(-SAID_MAX),

    assertSound() {
      if (host.disturbedAt !== Number.POSITIVE_INFINITY) assertRuns()
      assert.doesNotMatch(started.err(), BUG)
    },

    async end(failed) {
      if (failed) return
      await ready
      started.child.kill('SIGTERM')
      const code = await within(END_MAX_MS, `${name} ends`, started.ended)
      assert.equal(code, 0, started.err())
      assert.doesNotMatch(started.err(), BUG)
    },
  }
  return host
}

/** Between two ticks, and how long one may take, a time that its database is away included. */
const TICK_EVERY_MS = 2_000
const TICK_MAX_MS = 120_000

/** Starts a loop of ticks. One that is killed is followed by the next. */
export function startTicks(name: string, place: Place): Host {
  let stopping = false
  let current: Started | undefined
  let failure: unknown
  const loop = async (): Promise<void> => {
    while (!stopping) {
      current = place.follow(
        start(NEVER, ['tick', ...FEED, '--json'], { cwd: place.folder, env: { TRANCHE_DB: place.db } }),
      )
      current.child.stdin.end()
      const code = await within(TICK_MAX_MS, `a tick of ${name}`, current.ended)
      assertTicked(code, current)
      await pause(TICK_EVERY_MS)
    }
  }
  const done = loop().catch((error) => {
    failure = error
  })
  return {
    name,
    url: '',
    child: () => current?.child as Started['child'],
    disturbedAt: Number.NEGATIVE_INFINITY,

    async kill() {
      const victim = current
      if (!victim?.child.kill('SIGKILL')) return false
      return (await within(END_MAX_MS, `${name} is dead`, victim.ended)) === 'SIGKILL'
    },

    ready: async () => {},
    said: () => current?.err().slice(-SAID_MAX) ?? '',

    assertSound() {
      if (failure) throw failure
    },

    async end(failed) {
      stopping = true
      if (failed) current?.child.kill('SIGKILL')
      await within(TICK_MAX_MS + END_MAX_MS, `${name} ends`, done)
      if (failure && !failed) throw failure
    },
  }
}

/** It has done its part, or was killed, or its database was away, which one sentence says. */
function assertTicked(code: number | string, { out, err }: Started): void {
  assert.doesNotMatch(out() + err(), BUG)
  if (code === 'SIGKILL') return
  assert.ok([0, 1, 11].includes(code as number), `a tick ended with ${code}: ${out()}${err()}`)
  if (code !== 0) assert.ok('error' in JSON.parse(err()), err())
}

export const SCHEDULED = ['--tick-every', '1s', ...FEED]

/** The process that started it ends it. */
const NEVER = { after: () => {} }
