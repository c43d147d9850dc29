// Rounds of kill -9: start something, kill it at a random moment, and look whether anything that was answered is gone.

import assert from 'node:assert/strict'
import { readdirSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { monthOf } from '../../../src/core/time.ts'
import { machine } from '../../../src/machine.ts'
import { openScene, type Scene } from './scene.ts'
import { assertNothingLost } from './truth.ts'
import { VICTIMS, type Victim } from './victims.ts'

export type Tally = {
  rounds: number
  killed: number
  /** Of the killed, those that left a log with something in it, or a file half written. */
  atWork: number
  /** About how long it takes to its end: as it was seen, and more for each that was killed before. */
  wholeMs: number
}
export type Killed = { tallies: Map<string, Tally>; answered: Record<string, number> }

export const sumOf = (tallies: Iterable<Tally>): Pick<Tally, 'rounds' | 'killed' | 'atWork'> =>
  [...tallies].reduce(
    (sum, { rounds, killed, atWork }) => ({
      rounds: sum.rounds + rounds,
      killed: sum.killed + killed,
      atWork: sum.atWork + atWork,
    }),
    { rounds: 0, killed: 0, atWork: 0 },
  )

/** Within what time serve is killed; others within what they take to their end. */
const ENDLESS_MS = 500
/** A first guess at what a command takes, and how long after the first sign of a write one is killed at the latest. */
const FIRST_GUESS_MS = 120
const AT_WORK_MS = 20

type Options = {
  seed: number
  onRound?: (round: number) => void
  /** Whether to end before the next round. */
  isOver?: () => boolean
}

/** Runs rounds on one database, the victims in turn. Throws with the round that failed, whose folder then stays. */
export async function killRounds(
  rounds: number,
  { seed, onRound = () => {}, isOver = () => false }: Options,
): Promise<Killed> {
  const scene = await openScene(seed)
  const tallies = new Map<string, Tally>()
  let doing = 'at the start'
  try {
    for (let round = 1; round <= rounds && !isOver(); round++) {
      const victim = VICTIMS[(round - 1) % VICTIMS.length] as Victim
      const tally = tallies.get(victim.name) ?? { rounds: 0, killed: 0, atWork: 0, wholeMs: FIRST_GUESS_MS }
      tallies.set(victim.name, tally)
      doing = `round ${round} of seed ${seed} (${victim.name})`
      await killOnce(scene, victim, tally)
      await assertNothingLost(scene)
      onRound(round)
    }
    doing = 'at the end'
    for (const env of ['test', 'live'])
      await scene.run(['billing', 'reconcile', '--month', monthOf(machine.clock()), '--env', env])
  } catch (error) {
    await scene.end(true)
    throw new Error(`${doing}, in ${scene.folder}: ${(error as Error).stack}`, { cause: error })
  }
  await scene.end(false)
  return { tallies, answered: answeredIn(scene) }
}

async function killOnce(scene: Scene, victim: Victim, tally: Tally): Promise<void> {
  const { started, file, meanwhile, after } = await victim.begin(scene)
  const { child } = started
  const from = performance.now()
  const span = victim.endless ? ENDLESS_MS : tally.wholeMs
  const moment =
    victim.endless || scene.random() < 0.5
      ? wait(scene.random() * span)
      : atWork(scene, file).then(() => wait(scene.random() * scene.random() * AT_WORK_MS))
  await Promise.race([moment, started.ended])
  child.kill('SIGKILL')
  const code = await started.ended
  await meanwhile
  tally.rounds += 1
  if (code === 'SIGKILL') {
    tally.killed += 1
    tally.wholeMs *= 1.05
    if (leftSomething(scene, file)) tally.atWork += 1
  } else {
    assert.deepEqual([code, started.err()], [0, ''])
    tally.wholeMs = performance.now() - from
  }
  await after?.(code)
}

/** Resolves when there are signs of a write, or the time for it is over. */
async function atWork(scene: Scene, file: string): Promise<void> {
  const until = performance.now() + ENDLESS_MS
  while (!leftSomething(scene, file) && performance.now() < until) await wait(1)
}

const leftSomething = ({ folder }: Scene, file: string): boolean =>
  readdirSync(folder).some((name) => name.includes('.partial-') || name === `${basename(file)}-journal`) ||
  (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0

function answeredIn({ test, live, keys }: Scene): Record<string, number> {
  const sum = (count: (partner: typeof test) => number): number => count(test) + count(live)
  return {
    calls: sum(({ calls }) => calls),
    users: sum(({ users }) => users.size),
    plans: sum(({ plans }) => plans.size),
    deliveries: sum(({ leases }) => leases.size),
    confirmations: sum(({ reports }) => reports.size),
    keys: keys.size,
  }
}
