// What the measured rates mean for a service: how many plans one file carries, and one server.

import { FREQUENCIES, WINDOW_MS } from '../../src/core/time.ts'
import { slotMsOf } from '../../src/engine/slot-reserve.ts'
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

type Rows = Pick<Report, 'rows'>

function find({ rows }: Rows, name: string): Result | null {
  const row = rows.find((each) => each.name === name)
  return row && !hasFailed(row) ? row : null
}

/** A sentence for each row that was measured. */
export function capacityOf(report: Rows): string[] {
  const [confirm, pass, growth] = ['confirm', 'pass', 'growth'].map((name) => find(report, name))
  return [
    ...(confirm ? confirmed(rateOf(confirm)) : []),
    ...(pass ? fired(rateOf(pass)) : []),
    ...(growth ? stored(growth, { figure: 'file_mib', of: 'file' }) : []),
  ]
}

/** The same of a server, of which a machine that is busy tells ratios better than rates. */
export function capacityOfServer(report: Rows): string[] {
  const of = (name: string) => find(report, name)
  const [confirm, pass, together, growth] = [of('confirm'), of('pass'), of('pass-together'), of('growth')]
  const toFile = ['confirm', 'confirm-alone', 'plan', 'pass'].flatMap((name) => {
    const spread = of(name)?.ratios['rate to a file']?.spread
    return spread ? [`\`${name}\` ${spread.median.toFixed(2)}`] : []
  })
  const wal = pass?.contestants[0]?.figures.wal_bytes?.median
  return [
    ...(toFile.length > 0 ? [`Of the rate on a file, in the same run: ${toFile.join(', ')}.`] : []),
    ...(confirm
      ? [
          `One partner's confirmations on one \`serve\`: about ${about(rateOf(confirm))} a second, as they share one transaction after the other. Other partners have transactions of their own beside it.`,
        ]
      : []),
    ...(together
      ? [
          `Four ticks at once fire about ${about(rateOf(together))} tranches a second, where one alone fires ${about(rateOf(together, 1))}.`,
        ]
      : []),
    ...(wal === undefined
      ? []
      : [
          `A tranche that fires takes about ${about(wal)} bytes of the log, with every page that is changed for the first time after a checkpoint.`,
        ]),
    ...(growth ? stored(growth, { figure: 'database_mib', of: 'database' }) : []),
  ]
}

const rateOf = ({ contestants }: Result, of = 0): number =>
  contestants[of]?.figures.per_second?.median ?? Number.NaN

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
function stored({ contestants }: Result, { figure, of }: { figure: Figure; of: string }): string[] {
  const sizes = contestants.flatMap(({ name, figures }) => {
    const mib = figures[figure]?.median
    return mib === undefined ? [] : [{ plans: Number(name.replace(/\D/g, '')), mib }]
  })
  const [least, most] = [sizes[0], sizes.at(-1)]
  if (!least || !most || most.plans === least.plans) return []
  const each = (most.mib - least.mib) / (most.plans - least.plans)
  return [
    `A plan that waits takes about ${about(each * 2 ** 20)} bytes of the ${of}, indexes included: a million of them ` +
      `${about((each * 1e6) / MIB_PER_GIB)} GiB.`,
  ]
}
