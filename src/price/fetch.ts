// Fetches JSON from a server, within limits of time and size. Numbers stay text as they were written, and the answer
// also gives the time.

import { Decimal } from 'decimal.js'
import { agree, type Testimony, type Witness } from '../core/clock.ts'
import { type Instant, plus, SECOND_MS } from '../core/time.ts'
import { call } from '../outgoing-call.ts'

export const FETCH_TIMEOUT_MS = 3_000
const BODY_BYTES_MAX = 256 * 1024

/** JSON.parse as ECMAScript now has it: the reviver gets the source text of a number. */
const parseJson = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
) => unknown

/** Numbers given to decimal.js: an exponent of at most two digits, because no price and no time needs a larger one. */
const EXPONENT = /^\d+(?:\.\d+)?e[+-]?0*\d{1,2}$/i

/** A JSON number with an exponent, digit for digit, without the exponent. Any other text stays unchanged. */
const withoutExponent = (written: string) =>
  EXPONENT.test(written) ? new Decimal(written).toFixed() : written

/** A JSON answer with its numbers left as text, and when it was served, if it says so. */
type Answer = { document: unknown; at: Instant | null }

/** Throws on a time-out, a status other than 200, a body that is not whole or not JSON. */
export async function fetchJson(url: URL): Promise<Answer> {
  const { statusCode, headers, body, flaw } = await call(url, {
    method: 'GET',
    headers: { accept: 'application/json', 'cache-control': 'no-cache', 'user-agent': 'tranche' },
    timeoutMs: FETCH_TIMEOUT_MS,
    answerBytesMax: BODY_BYTES_MAX,
  })
  if (statusCode !== 200) throw new Error(`HTTP ${statusCode}`)
  if (flaw !== null) throw new Error(flaw)
  try {
    const document = parseJson(body.toString(), (_, value, { source }) =>
      typeof value === 'number' && source !== undefined ? withoutExponent(source) : value,
    )
    return { document, at: servedAt(headers) }
  } catch {
    throw new Error('its answer is not JSON')
  }
}

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)

// The time given by the answers of price sources, as a second witness beside the machine's own clock.

/** `Date` by RFC 9110, section 5.6.7. The two obsolete forms are not read. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/
const AGE = /^\d{1,10}$/

type Headers = Record<string, string | string[] | undefined>

/** When an answer was served: its Date, plus its Age if it comes from a cache. Null without a Date. */
export function servedAt({ date, age }: Headers): Instant | null {
  if (typeof date !== 'string' || !HTTP_DATE.test(date)) return null
  const at = Date.parse(date) as Instant
  if (Number.isNaN(at)) return null
  return typeof age === 'string' && AGE.test(age) ? plus(at, Number(age) * SECOND_MS) : at
}

/**
 * The testimony of one source: of the times in its answer, the one nearest to the clock. A quiet market gives an old
 * price in a new answer, and a server may have the wrong date; either time is enough to confirm the clock.
 */
export function tell(source: string, times: readonly (Instant | null)[], clock: Instant): Testimony {
  const known = times.filter((at) => at !== null).sort((a, b) => Math.abs(a - clock) - Math.abs(b - clock))
  return known[0] === undefined ? 'silent' : { source, at: known[0] }
}

/** The time on which most of the sources that give one agree; silent when they do not agree. */
export function majority(source: string, testimonies: readonly Testimony[]): Testimony {
  const known = testimonies
    .filter((one): one is Witness => typeof one !== 'string')
    .map(({ at }) => at)
    .sort((a, b) => a - b)
  const middle = known[(known.length - 1) >> 1]
  if (middle === undefined) return 'silent'
  return 2 * known.filter((at) => agree(at, middle)).length > known.length ? { source, at: middle } : 'silent'
}
