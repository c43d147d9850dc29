// Fetches JSON from a server, within limits of time and size. Numbers stay text, and the answer also gives the time.

import { Decimal } from 'decimal.js'
import { agree, type Testimony, type Witness } from '../core/clock.ts'
import { type Instant, plus, SECOND_MS } from '../core/time.ts'
import { call } from '../outgoing-call.ts'

export const FETCH_TIMEOUT_MS = 3_000
const BODY_BYTES_MAX = 256 * 1024

/** JSON.parse as in current ECMAScript: the reviver gets the source text of a number. */
const parseJson = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
) => unknown

/** Numbers with an exponent that decimal.js may read: two digits at most, because no price and no time needs more. */
const EXPONENT = /^\d+(?:\.\d+)?e[+-]?0*\d{1,2}$/i

/** A JSON number without its exponent, digit for digit. Any other text stays unchanged. */
const withoutExponent = (written: string) =>
  EXPONENT.test(written) ? new Decimal(written).toFixed() : written

/** A JSON answer with its numbers as text, the times at which it may have been served, and how long a cache held it. */
type Answer = { document: unknown; servedAt: Instant[]; ageMs: number }

/** Throws on a time-out, a status other than 200, or a body that is incomplete or not JSON. */
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
    return { document, servedAt: servedAt(headers), ageMs: ageOf(headers) }
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

/**
 * The times at which an answer may have been served. Date says when it was made, so an answer from a cache was served
 * by its Age later; but some caches write a Date of their own and pass the Age on.
 */
export function servedAt(headers: Headers): Instant[] {
  const { date } = headers
  if (typeof date !== 'string' || !HTTP_DATE.test(date)) return []
  const at = Date.parse(date) as Instant
  if (Number.isNaN(at)) return []
  const ageMs = ageOf(headers)
  return ageMs === 0 ? [at] : [at, plus(at, ageMs)]
}

/** How long a cache has held an answer. A price in it is at least as old. */
export const ageOf = ({ age }: Headers): number =>
  typeof age === 'string' && AGE.test(age) ? Number(age) * SECOND_MS : 0

/**
 * The testimony of one source: of the times in its answer, the one nearest to the clock. A quiet market gives an old
 * price in a new answer, and a server may have the wrong date; either time is enough to confirm the clock.
 */
export function tell(source: string, times: readonly (Instant | null)[], clock: Instant): Testimony {
  const closest = times.filter((at) => at !== null).sort((a, b) => Math.abs(a - clock) - Math.abs(b - clock))
  return closest[0] === undefined ? 'silent' : { source, at: closest[0] }
}

/** The time on which most sources agree; silent when they do not agree. */
export function majority(source: string, testimonies: readonly Testimony[]): Testimony {
  const told = testimonies
    .filter((one): one is Witness => typeof one !== 'string')
    .map(({ at }) => at)
    .sort((a, b) => a - b)
  const middle = told[(told.length - 1) >> 1]
  if (middle === undefined) return 'silent'
  return 2 * told.filter((at) => agree(at, middle)).length > told.length ? { source, at: middle } : 'silent'
}
