// The time that the answers of price sources tell, as a second witness beside the machine's own clock.

import { agree, type Testimony, type Witness } from '../core/clock-dispute.ts'
import { type Instant, plus, SECOND_MS } from '../core/instant.ts'

/** `Date` as RFC 9110, section 5.6.7 has it; the two obsolete forms are read by nobody's clock any more. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/
const AGE = /^\d{1,10}$/

type Headers = Record<string, string | string[] | undefined>

/** When an answer was handed out: its Date, and for one that a cache had kept its Age on top. Null without a Date. */
export function servedAt({ date, age }: Headers): Instant | null {
  if (typeof date !== 'string' || !HTTP_DATE.test(date)) return null
  const at = Date.parse(date) as Instant
  if (Number.isNaN(at)) return null
  return typeof age === 'string' && AGE.test(age) ? plus(at, Number(age) * SECOND_MS) : at
}

/**
 * What one source tells, of the times in its answer the one nearest to the clock. A market that rests has an old price
 * in a new answer, and a server may be wrong about the date: either time is enough to confirm the clock.
 */
export function tell(source: string, times: readonly (Instant | null)[], clock: Instant): Testimony {
  const told = times.filter((at) => at !== null).sort((a, b) => Math.abs(a - clock) - Math.abs(b - clock))
  return told[0] === undefined ? 'silent' : { source, at: told[0] }
}

/** What most of the sources that tell a time agree on; silent when they do not. */
export function majority(source: string, testimonies: readonly Testimony[]): Testimony {
  const told = testimonies
    .filter((one): one is Witness => typeof one !== 'string')
    .map(({ at }) => at)
    .sort((a, b) => a - b)
  const middle = told[(told.length - 1) >> 1]
  if (middle === undefined) return 'silent'
  return 2 * told.filter((at) => agree(at, middle)).length > told.length ? { source, at: middle } : 'silent'
}
