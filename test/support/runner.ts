// The command line of the programs behind `npm run`: options that are checked, and a `--help`.

import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'

/** A command `npm run NAME`. Mistakes in its options are thrown, not printed. */
export const runner = (name: string, description: string): Command =>
  new Command(`npm run ${name} --`)
    .description(description)
    .allowExcessArguments(false)
    .exitOverride()
    .configureOutput({ outputError: () => {} })

/** A whole number from `least` up, of at most ten digits. */
export const wholeFrom =
  (least: number) =>
  (text: string): number => {
    if (/^\d{1,10}$/.test(text) && Number(text) >= least) return Number(text)
    throw new InvalidArgumentError(`It is a whole number from ${least} up.`)
  }

/** A time in minutes, fractions included. */
export function minutes(text: string): number {
  if (/^\d{1,5}(\.\d+)?$/.test(text) && Number(text) > 0) return Number(text)
  throw new InvalidArgumentError('It is a number above 0.')
}

export const seedOption = (what: string): Option =>
  new Option('--seed <n>', what).env('SEED').argParser(wholeFrom(0))

/** The command line as parsed by `read`. Otherwise the process ends: with 0 after --help, 2 after a mistake. */
export function optionsOrExit<T>(read: (args: readonly string[]) => T): T {
  try {
    return read(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) process.exit(0)
    process.stderr.write(`${error.message}\n`)
    process.exit(2)
  }
}
