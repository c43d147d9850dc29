// Asking a server for a price: a time limit, a size limit, and numbers that stay text until they are exact.

import type { Instant } from '../core/instant.ts'
import { type Price, price } from '../core/money.ts'
import { servedAt } from './witness.ts'

/** What a source said: a price, and when it was made if the source says so. */
export type Quote = { price: Price; at: Instant | null }

export const FETCH_TIMEOUT_MS = 3_000
const BODY_BYTES_MAX = 256 * 1024
const NUMBER = /^(\d{1,8})(?:\.(\d+))?$/
const PLACES_MAX = 18

/** JSON.parse as ECMAScript now has it: the reviver sees the text a number was written as. */
const parseJson = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
) => unknown

/** A JSON answer with its numbers left as text, and when it was handed out if it says so. */
export type Answer = { document: unknown; at: Instant | null }

/** Throws on a time-out, a status other than 200, a body that is not JSON. */
export async function fetchJson(url: URL): Promise<Answer> {
  // Loaded only when a feed is asked: a pass without one starts faster.
  const { request } = await import('undici')
  const signal = AbortSignal.timeout(FETCH_TIMEOUT_MS)
  const { statusCode, headers, body } = await request(url, {
    signal,
    headers: { accept: 'application/json', 'cache-control': 'no-cache', 'user-agent': 'tranche' },
  }).catch((error: Error) => {
    throw new Error(signal.aborted ? `no answer within ${FETCH_TIMEOUT_MS / 1000} s` : error.message)
  })
  const text = await readText(body, signal)
  if (statusCode !== 200) throw new Error(`HTTP ${statusCode}`)
  try {
    const document = parseJson(text, (_, value, { source }) => (typeof value === 'number' ? source : value))
    return { document, at: servedAt(headers) }
  } catch {
    throw new Error('its answer is not JSON')
  }
}

async function readText(body: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of body) {
      size += chunk.byteLength
      if (size > BODY_BYTES_MAX) throw new Error(`its answer is larger than ${BODY_BYTES_MAX} bytes`)
      chunks.push(chunk)
    }
  } catch (error) {
    throw signal.aborted ? new Error(`no whole answer within ${FETCH_TIMEOUT_MS / 1000} s`) : error
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** A positive price from text. Throws on anything else: zero, a sign, an exponent, "NaN". */
export function positive(value: unknown, name = 'price'): Price {
  const parts = typeof value === 'string' ? NUMBER.exec(value) : null
  const whole = parts?.[1]
  if (whole === undefined) throw new Error(`its ${name} is ${JSON.stringify(value)}`)
  const fraction = parts?.[2]?.slice(0, PLACES_MAX)
  const exact = price(fraction === undefined ? whole : `${whole}.${fraction}`)
  if (exact === 0n) throw new Error(`its ${name} is zero`)
  return exact
}

/** The middle of bid and ask; the last trade where they are missing or crossed. */
export function middle(ticker: { bid: unknown; ask: unknown; last: unknown }): Price {
  try {
    const [bid, ask] = [positive(ticker.bid, 'bid'), positive(ticker.ask, 'ask')]
    if (bid <= ask) return ((bid + ask) / 2n) as Price
  } catch {
    // A ticker without a book still has its last trade.
  }
  return positive(ticker.last, 'last price')
}

/** The price a JSON pointer (RFC 6901) leads to. */
export function quoteAt(document: unknown, pointer: string): Price {
  let value = document
  for (const part of pointer.split('/').slice(1)) {
    value = member(value, part.replaceAll('~1', '/').replaceAll('~0', '~'))
  }
  return positive(value)
}

/** A member of an object or an array, by name or number. Throws when there is none. */
export function member(value: unknown, name: string): unknown {
  if (value === null || typeof value !== 'object' || !Object.hasOwn(value, name)) {
    throw new Error(`its answer has no ${JSON.stringify(name)}`)
  }
  return (value as Record<string, unknown>)[name]
}

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
