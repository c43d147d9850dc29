// The options of `npm run simulate`.

import { Option } from 'commander'
import { minutes, runner, seedOption, wholeFrom } from '../support/runner.ts'

/** A single life in so many is one of crashes: each kill costs the start of a process. */
export const LIVES_PER_CRASHING = 12

const STORES = ['sqlite', 'postgres', 'both'] as const
export type StoreName = (typeof STORES)[number]

type Options = {
  minutes: number
  store: StoreName
  /** Null for a mixture. */
  crashes: boolean | null
  shrinks: boolean
  seed: number | null
  steps: number | null
}

/** Throws a CommanderError that names the mistake. */
export function optionsOf(args: readonly string[]): Options {
  const command = runner('simulate', 'Lives whole lives of a service and holds each answer against a model.')
    .option('--minutes <n>', 'how long', minutes, 1)
    .addOption(
      new Option('--store <name>', 'which store; both must say the same').choices(STORES).default('sqlite'),
    )
    .option(
      '--crashes',
      `only lives whose process is killed on the way (default: one in ${LIVES_PER_CRASHING}, of both stores none)`,
    )
    .option('--no-crashes', 'none of them')
    .option('--no-shrink', 'print the whole trace of what fails, at once')
    .addOption(seedOption('live this one alone, without crashes unless --crashes is given'))
    .addOption(new Option('--steps <n>', 'end every life after so many').env('STEPS').argParser(wholeFrom(1)))
  const asked = command.parse(args, { from: 'user' }).opts()
  const seed: number | null = asked.seed ?? null
  const store: StoreName = asked.store
  // Two stores whose processes are killed would stop at different places.
  if (store === 'both' && asked.crashes)
    command.error('--crashes goes with one store: both of them live without.')
  return {
    minutes: asked.minutes,
    store,
    crashes: store === 'both' ? false : (asked.crashes ?? (seed === null ? null : false)),
    shrinks: asked.shrink,
    seed,
    steps: asked.steps ?? null,
  }
}

// The lives that every run begins with, so that runs of one program can be compared. A seed is the same life only as
// long as the player draws the same: any new draw changes the life, which then repeats an old finding only by chance. A
// bug that must stay found is planted (test/mutants/bugs/), or has a test of its own.

export type Life = { seed: number; isCrashing: boolean }

const whole = (seed: number): Life => ({ seed, isCrashing: false })
const crashing = (seed: number): Life => ({ seed, isCrashing: true })

/** Short lives, which are also part of `npm test`. */
export const SHORT_LIVES = [whole(5), whole(41)]
/** With a crash after a commit, and one after a tranche had fired, within the first steps. */
export const SHORT_CRASHING_LIFE = { ...crashing(12), steps: 5 }

/** On a server, calls at the same moment are done in any order: a seed is a life that differs a little in every run. */
export const SHORT_LIFE_ON_BOTH = { seed: 5, steps: 20 }
export const SHORT_CRASHING_LIFE_ON_A_SERVER = { seed: 103, steps: 2 }

/** Lives that showed an error of this product when they were first lived. */
const TELLING = [
  // A month of corrections that reached no tier was charged by one that is for overrides.
  whole(206),
  // A late fill without a time was dated by its acceptance; one beside a trade lost its fee, price and time.
  whole(259),
  whole(2),
  // The report of a purchase on a pending execution was dropped.
  whole(5),
  // A plan had its old keys again after a reset of its sandbox; test and live still share keys, at one venue.
  whole(22),
  whole(200),
]

export const FIXED_LIVES: readonly Life[] = [
  ...TELLING,
  whole(20_260_105),
  whole(1_000_003),
  whole(2_254_654_918),
  whole(2_758_879_379),
  crashing(1_000_003),
  whole(33),
  whole(2_425_635_902),
  whole(476_163_319),
  whole(3_977_995_620),
  whole(374_376_334),
  whole(3_500_858_092),
  whole(23),
  ...SHORT_LIVES,
]
