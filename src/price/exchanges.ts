// The public tickers of four exchanges: where they are and what their answers look like.

import { type Instant, parseInstant } from '../core/instant.ts'
import { member, middle, type Quote } from './read-quote.ts'

export type Exchange = 'coinbase' | 'kraken' | 'bitstamp' | 'gemini'

type Ticker = { origin: string; path: string; read: (answer: unknown) => Quote }

export const EXCHANGES: Record<Exchange, Ticker> = {
  coinbase: {
    origin: 'https://api.exchange.coinbase.com',
    path: '/products/BTC-USD/ticker',
    read: readCoinbase,
  },
  kraken: { origin: 'https://api.kraken.com', path: '/0/public/Ticker?pair=XBTUSD', read: readKraken },
  bitstamp: { origin: 'https://www.bitstamp.net', path: '/api/v2/ticker/btcusd/', read: readBitstamp },
  gemini: { origin: 'https://api.gemini.com', path: '/v1/pubticker/btcusd', read: readGemini },
}

function readCoinbase(answer: unknown): Quote {
  const { bid, ask, price: last, time } = object(answer)
  const parsed = parseInstant(String(time))
  if (!parsed.ok) throw new Error(`its time is ${JSON.stringify(time)}`)
  return { price: middle({ bid, ask, last }), at: parsed.at }
}

function readKraken(answer: unknown): Quote {
  // Kraken answers 200 with its errors in the body, and names the pair as it likes.
  const errors = member(answer, 'error')
  if (!Array.isArray(errors) || errors.length > 0) throw new Error(`it answers ${JSON.stringify(errors)}`)
  const [pair] = Object.values(object(member(answer, 'result')))
  const { a, b, c } = object(pair)
  const first = (list: unknown): unknown => (Array.isArray(list) ? list[0] : undefined)
  return { price: middle({ bid: first(b), ask: first(a), last: first(c) }), at: null }
}

function readBitstamp(answer: unknown): Quote {
  const { bid, ask, last, timestamp } = object(answer)
  return { price: middle({ bid, ask, last }), at: epoch(timestamp, 1000) }
}

function readGemini(answer: unknown): Quote {
  const { bid, ask, last, volume } = object(answer)
  return { price: middle({ bid, ask, last }), at: epoch(member(volume, 'timestamp'), 1) }
}

function object(value: unknown): Record<string, unknown> {
  if (value === null || typeof value !== 'object') throw new Error('its answer is not an object')
  return value as Record<string, unknown>
}

function epoch(value: unknown, unitMs: number): Instant {
  if (typeof value !== 'string' || !/^\d{9,14}$/.test(value))
    throw new Error(`its timestamp is ${JSON.stringify(value)}`)
  return (Number(value) * unitMs) as Instant
}
