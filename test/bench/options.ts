// What `npm run bench` is asked for.

import { InvalidArgumentError, Option } from 'commander'
import { runner, wholeFrom } from '../support/runner.ts'
import type { StoreName } from './backend.ts'

export type Options = {
  /** What keeps the databases. */
  store: StoreName
  quick: boolean
  /** Null for all of them. */
  only: string[] | null
  rounds: number
  /** Where everything goes that was measured. */
  json: string | null
  /** The ratios that this run is held against; null for none. */
  check: string | null
  /** Where its ratios are recorded, for later runs to be held against. */
  record: string | null
}

const ROUNDS = { quick: 3, full: 5 }

/** Throws a CommanderError that says what is wrong. `names` are those of the rows that there are on each store. */
export function optionsOf(
  args: readonly string[],
  names: Readonly<Record<StoreName, readonly string[]>>,
): Options {
  const command = runner('bench', 'Measures what the executable does beside the least that it could cost.')
    .option('--quick', 'less of everything: under two minutes on a quiet machine', false)
    .addOption(
      new Option('--store <store>', "measure on a file, or on a server of Debian's packages")
        .choices(Object.keys(names))
        .default('file'),
    )
    .addOption(new Option('--only <row...>', 'these rows alone').choices(allOf(names)))
    .option(
      '--rounds <n>',
      `turns of each (default: ${ROUNDS.full}, ${ROUNDS.quick} with --quick)`,
      wholeFrom(1),
    )
    .option('--json <file>', 'write all that was measured, and on what machine', notEmpty)
    .option('--check <file>', 'fail when a ratio is twice as bad as it was recorded', notEmpty)
    .option('--record <file>', 'record the ratios of this run, the rows left out as they were', notEmpty)
  const asked = command.parse(args, { from: 'user' }).opts()
  const store: StoreName = asked.store
  const missing = (asked.only as string[] | undefined)?.find((name) => !names[store].includes(name))
  if (missing !== undefined)
    command.error(`error: there is no row '${missing}' on ${store}: its rows are ${names[store].join(', ')}`)
  return {
    store,
    quick: asked.quick,
    only: asked.only ?? null,
    rounds: asked.rounds ?? ROUNDS[asked.quick ? 'quick' : 'full'],
    json: asked.json ?? null,
    check: asked.check ?? null,
    record: asked.record ?? null,
  }
}

const allOf = (names: Readonly<Record<StoreName, readonly string[]>>): string[] => [
  ...new Set(Object.values(names).flat()),
]

function notEmpty(text: string): string {
  if (text !== '') return text
  throw new InvalidArgumentError('It is the name of a file.')
}
