// A run of the fuzzer: players side by side, each with plays of its own from one seed, until so many requests are
// answered or the time is up.

import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import { createAttacks } from './attacks.ts'
import { createClient } from './client.ts'
import { OPERATIONS } from './operations.ts'
import { createOwners } from './oracle.ts'
import { createPlays, type Plays, type Stage } from './play.ts'
import { anyPlay } from './steps.ts'
import { type Player, startTarget, type Target } from './target.ts'
import { anyAttack } from './wire.ts'

export type FuzzOptions = {
  seed: number
  /** The run ends after so many, or at the end of the time. */
  requests: number
  minutes: number
  /** Told now and then how far it is. */
  onProgress?: (report: FuzzReport) => void
}
export type FuzzReport = {
  requests: number
  seconds: number
  /** How often each operation was answered with each status. */
  answers: Record<string, Record<number, number>>
  /** Taken at every thousandth request. */
  samples: { requests: number; residentBytes: number; fileBytes: number }[]
}
/** The operations that no play got to succeed. */
export const neverSucceeded = ({ answers }: Pick<FuzzReport, 'answers'>): string[] =>
  OPERATIONS.map(({ operationId }) => operationId).filter((id) => !answers[id]?.[200])

type Ending = Parameters<typeof startTarget>[0]

/** As many as keep the service busy from one other processor. */
const PLAYERS = 8
const PLAYS_PER_CHECK = 20
const SAMPLE_EVERY = 1_000

/** Throws the smallest play found that the service does not answer as it should. */
export async function fuzz(ending: Ending, options: FuzzOptions): Promise<FuzzReport> {
  const target = await startTarget(ending, PLAYERS + 1)
  const tally = createTally(target, options)
  const owners = createOwners()
  const failures: Error[] = []
  const isOver = (): boolean => failures.length > 0 || tally.isOver()

  target.served.ended.then((code) => {
    if (!tally.isOver()) failures.unshift(new Error(`the service ended with ${code}: ${target.served.err()}`))
  })

  /** Each fuzzer has its own line of seeds. */
  async function search<T>(
    n: number,
    plays: fc.Arbitrary<T>,
    play: (planned: T) => Promise<void>,
  ): Promise<void> {
    for (let round = 0; !isOver(); round++) {
      const seed = options.seed + round * (PLAYERS + 1) + n
      const failure = await searchOnce(plays, async (planned) => (isOver() ? undefined : play(planned)), seed)
      if (failure) failures.push(failure)
    }
  }

  const [attacker, ...players] = target.players as [Player, ...Player[]]
  const all: Plays[] = players.map((player, n) => {
    const client = createClient(target.served.url)
    ending.after(() => client.close())
    const stage: Stage = { target, client, owners, note: tally.note }
    return createPlays(stage, player, () => all[(n + 1) % PLAYERS]?.last() ?? null)
  })
  const attacks = createAttacks(target, attacker, tally.note)
  await Promise.all([
    search(PLAYERS, anyAttack, attacks.play),
    ...all.map(({ play }, n) => search(n, anyPlay, play)),
  ])
  // One that ended makes all calls fail; it may take a moment until that is known.
  if (failures.length > 0) await wait(1_000)
  const [failure] = failures
  if (failure) throw failure
  await assertSound(target)
  return tally.report()
}

/** Plays until one play fails, which is then made as small as it goes. */
async function searchOnce<T>(
  plays: fc.Arbitrary<T>,
  play: (planned: T) => Promise<void>,
  seed: number,
): Promise<Error | null> {
  const details = await fc.check(fc.asyncProperty(plays, play), { seed, numRuns: PLAYS_PER_CHECK })
  if (!details.failed) return null
  return new Error(`Made smaller ${details.numShrinks} times:\n${String(details.errorInstance)}`)
}

async function assertSound({ served, store }: Target): Promise<void> {
  // A service that died at the last request is not known to be gone before it is asked once more.
  const isReady = await fetch(`${served.url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  )
  assert.ok(isReady && !served.hasEnded(), `the service is up: ${served.err()}`)
  assert.ok(!served.err().includes('"level":"error"'), served.err())
  assert.deepEqual(await store.findFaults(), [])
}

function createTally(target: Target, { requests, minutes, onProgress }: FuzzOptions) {
  const started = performance.now()
  const report: FuzzReport = { requests: 0, seconds: 0, answers: {}, samples: [] }
  const seconds = (): number => (performance.now() - started) / 1_000
  return {
    isOver: () => report.requests >= requests || seconds() > minutes * 60,
    report: () => ({ ...report, seconds: seconds() }),
    note(operationId: string, status: number) {
      report.requests += 1
      const counts = report.answers[operationId] ?? {}
      report.answers[operationId] = counts
      counts[status] = (counts[status] ?? 0) + 1
      if (report.requests % SAMPLE_EVERY > 0) return
      report.samples.push({ requests: report.requests, ...target.sizes() })
      onProgress?.({ ...report, seconds: seconds() })
    },
  }
}
