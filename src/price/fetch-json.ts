// Asking a server for JSON: a time limit, a size limit, and numbers that stay the text they were written as.

import { Decimal } from 'decimal.js'
import type { Instant } from '../core/instant.ts'
import { servedAt } from './clock-witness.ts'

export const FETCH_TIMEOUT_MS = 3_000
const BODY_BYTES_MAX = 256 * 1024

/** JSON.parse as ECMAScript now has it: the reviver sees the text a number was written as. */
const parseJson = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
) => unknown

/** What decimal.js is given: an exponent of at most two digits, because no price and no time needs a larger one. */
const EXPONENT = /^\d+(?:\.\d+)?e[+-]?0*\d{1,2}$/i

/** A number as JSON writes it, digit for digit, without its exponent. Any other stays as it was written. */
const withoutExponent = (written: string) =>
  EXPONENT.test(written) ? new Decimal(written).toFixed() : written

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
    const document = parseJson(text, (_, value, { source }) =>
      typeof value === 'number' && source !== undefined ? withoutExponent(source) : value,
    )
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

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
