// A price read out of a JSON answer, whatever its shape: numbers are text until they are exact.

import type { Instant } from '../core/instant.ts'
import { type Price, price } from '../core/money.ts'

/** What a source said: a price, and when it was made if the source says so. */
export type Quote = { price: Price; at: Instant | null }

const NUMBER = /^\d{1,8}(\.\d+)?$/
const PLACES_MAX = 18

/** A positive price from text. Throws on anything else: zero, a sign, an exponent, "NaN". */
export function positive(value: unknown, name = 'price'): Price {
  if (typeof value !== 'string' || !NUMBER.test(value)) {
    throw new Error(`its ${name} is ${JSON.stringify(value)}`)
  }
  const point = value.indexOf('.')
  const exact = price(point < 0 ? value : value.slice(0, point + 1 + PLACES_MAX))
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
