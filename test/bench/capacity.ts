// What the measured rates mean for a service: how many plans one file carries.

import { FREQUENCIES, slotMsOf, WINDOW_MS } from '../../src/core/frequency.ts'
import type { Report } from './report.ts'
import { type Figure, hasFailed, type Result } from './row.ts'
import { counted } from './words.ts'

const DAY_SECONDS = 86_400
const HOUR_SECONDS = 3_600
const MINUTE_SECONDS = 60
const UNITS_PER_SLOT = 2
const MIB_PER_GIB = 1_024

/** The most that a plan fires a day: a daily one has the most slots. */
const TRANCHES_A_DAY = Math.max(
  ...FREQUENCIES.map(
    (frequency) => (UNITS_PER_SLOT * 24 * HOUR_SECONDS * 1000) / slotMsOf(WINDOW_MS[frequency]),
  ),
)

/** Two digits: more would promise what a machine of its own kind does not keep. */
const about = (value: number): string => counted(Number(value.toPrecision(2)))

/** A sentence for each row that was measured. */
export function capacityOf({ rows }: Pick<Report, 'rows'>): string[] {
  const find = (name: string): Result | null => {
    const row = rows.find((each) => each.name === name)
    return row && !hasFailed(row) ? row : null
  }
  const [confirm, pass, growth] = ['confirm', 'pass', 'growth'].map(find)
  return [
    ...(confirm ? confirmed(rateOf(confirm)) : []),
    ...(pass ? fired(rateOf(pass)) : []),
    ...(growth ? stored(growth) : []),
  ]
}

const rateOf = ({ contestants }: Result): number => contestants[0]?.figures.per_second?.median ?? Number.NaN

const confirmed = (rate: number): string[] => [
  `One \`serve\` confirms about ${about(rate)} instructions a second: the first tranches of ${about(rate * HOUR_SECONDS)} plans within ` +
    `an hour, or all ${TRANCHES_A_DAY} tranches a day of ${about((rate * DAY_SECONDS) / TRANCHES_A_DAY)} daily plans, if their confirmations came ` +
    'evenly through the day.',
]

const fired = (rate: number): string[] => [
  `A tick fires about ${about(rate)} tranches a second: when more than ${about(rate * MINUTE_SECONDS)} plans fire at once, it ` +
    'takes longer than the minute until the next one, which then finds it running and does nothing.',
]

/** From the difference between the sizes, so that what every file has does not count. */
function stored({ contestants }: Result): string[] {
  const sizes = contestants.flatMap(({ name, figures }) => {
    const mib = figures['file_mib' satisfies Figure]?.median
    return mib === undefined ? [] : [{ plans: Number(name.replace(/\D/g, '')), mib }]
  })
  const [least, most] = [sizes[0], sizes.at(-1)]
  if (!least || !most || most.plans === least.plans) return []
  const each = (most.mib - least.mib) / (most.plans - least.plans)
  return [
    `A plan that waits takes about ${about(each * 2 ** 20)} bytes of the file, indexes included: a million of them ` +
      `${about((each * 1e6) / MIB_PER_GIB)} GiB.`,
  ]
}
