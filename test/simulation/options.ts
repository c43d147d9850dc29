// What `npm run simulate` is asked for.

import { Option } from 'commander'
import { minutes, runner, seedOption, wholeFrom } from '../support/runner.ts'

/** One life in so many is one of crashes: each kill costs the start of a process. */
export const LIVES_PER_CRASHING = 12

export const STORES = ['sqlite', 'postgres', 'both'] as const
export type StoreName = (typeof STORES)[number]

export type Options = {
  minutes: number
  store: StoreName
  /** Null for a mixture. */
  crashes: boolean | null
  shrinks: boolean
  seed: number | null
  steps: number | null
}

/** Throws a CommanderError that says what is wrong. */
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
  // Two stores whose processes are killed would be left at different places.
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
