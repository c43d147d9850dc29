// Which months a billing command is about: one, a range, or the year so far.

import { type Command, Option } from 'commander'
import { monthsFrom } from '../../core/month.ts'
import { Problem } from '../../core/problem.ts'
import { month } from '../options/values.ts'

/** Ten years: the most months that one report covers. */
const RANGE_MONTHS_MAX = 120

export type MonthOptions = { month?: string; from?: string; to?: string; yearToDate?: boolean }

/** `otherwise` says which month it is when none is given. */
export const monthOption = (otherwise?: string): Option =>
  new Option('--month <month>', 'the month (YYYY-MM)').argParser(month).default(undefined, otherwise)

export function addMonthOptions(command: Command, otherwise?: string): Command {
  return command
    .addOption(monthOption(otherwise).conflicts(['from', 'to', 'yearToDate']))
    .addOption(
      new Option('--from <month>', 'all months from this one on (YYYY-MM)')
        .argParser(month)
        .conflicts('yearToDate'),
    )
    .addOption(
      new Option('--to <month>', 'the last of them (YYYY-MM), by default the present one').argParser(month),
    )
    .option('--year-to-date', 'all months from January on, in the year of --to')
}

/** Whether the command line says which months. */
export const namesMonths = ({ month, from, to, yearToDate }: MonthOptions): boolean =>
  [month, from, to, yearToDate].some((given) => given !== undefined)

/** The months in their order. Throws usage for a range that has none, or too many. */
export async function monthsOf(
  { month, from, to, yearToDate }: MonthOptions,
  present: () => Promise<string>,
): Promise<string[]> {
  if (month !== undefined) return [month]
  if (to !== undefined && from === undefined && !yearToDate)
    throw new Problem('usage', '--to needs --from or --year-to-date.')
  const last = to ?? (await present())
  const first = yearToDate ? `${last.slice(0, 4)}-01` : (from ?? last)
  const months = monthsFrom(first, last, RANGE_MONTHS_MAX + 1)
  if (months.length === 0) {
    const end = to === undefined ? `the present month, ${last}; give --to` : `--to ${last}`
    throw new Problem('usage', `--from ${first} is after ${end}.`)
  }
  if (months.length > RANGE_MONTHS_MAX)
    throw new Problem(
      'usage',
      `--from ${first} to ${last} is more than ${RANGE_MONTHS_MAX} months; ask for fewer at a time.`,
    )
  return months
}
