// What `npm run simulate` is asked for.

import { Option } from 'commander'
import { minutes, runner, seedOption, wholeFrom } from '../support/runner.ts'

/** One life in so many is one of crashes: each kill costs the start of a process. */
export const LIVES_PER_CRASHING = 12

export type Options = {
  minutes: number
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
    .addOption(new Option('--store <name>', 'which store').choices(['sqlite']).default('sqlite'))
    .option(
      '--crashes',
      `only lives whose process is killed on the way (default: one in ${LIVES_PER_CRASHING})`,
    )
    .option('--no-crashes', 'none of them')
    .option('--no-shrink', 'print the whole trace of what fails, at once')
    .addOption(seedOption('live this one alone, without crashes unless --crashes is given'))
    .addOption(new Option('--steps <n>', 'end every life after so many').env('STEPS').argParser(wholeFrom(1)))
  const asked = command.parse(args, { from: 'user' }).opts()
  const seed: number | null = asked.seed ?? null
  return {
    minutes: asked.minutes,
    crashes: asked.crashes ?? (seed === null ? null : false),
    shrinks: asked.shrink,
    seed,
    steps: asked.steps ?? null,
  }
}
