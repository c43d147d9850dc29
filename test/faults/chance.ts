// What chance decides in the tests of a failing machine: SEED=n decides it again.

import { createHash } from 'node:crypto'
import type { TestContext } from 'node:test'
import { seededRandom } from '../../src/engine/backtest.ts'
import { machine } from '../../src/machine.ts'

/** Whether everything is tried, which takes minutes, or a part of it that chance decides. */
export const ALL = process.env.FAULTS_ALL !== undefined

const seed = Number(process.env.SEED ?? machine.clock() % 1_000_000)
export const random = seededRandom(seed)

/**
 * The chance of one test, whatever runs beside it: from 0 up to, not including, 1. The output of the test has the seed.
 */
export function chanceOf(t: TestContext): () => number {
  t.diagnostic(`SEED=${seed}`)
  const ofTest = createHash('sha256').update(`${seed} ${t.fullName}`).digest().readUInt32BE()
  return seededRandom(ofTest)
}

/** So many of a list, each once, from a place that chance decides. */
export function sample<T>(of: readonly T[], size: number, random: () => number): T[] {
  const from = Math.floor(random() * of.length)
  return of.map((_, i) => of[(from + i) % of.length] as T).slice(0, size)
}
