// Price feeds: a SPEC on the command line becomes a feed, of one source or of several exchanges.

import type { Testimony } from '../core/clock.ts'
import { type Price, price, priceAsNumber } from '../core/money.ts'
import { PRICE_LIVE_MS } from '../core/price.ts'
import { usage } from '../core/problem.ts'
import { type Instant, parseInstant, spellSpan } from '../core/time.ts'
import type { AskedFeed, ObservedPrice } from '../store/store.ts'
import { fetchJson, isLoopback, majority, tell } from './fetch.ts'

/** A price or none, the time in the same answers, and the feed for the operator; a fixed price has none. */
type Observation = { price: ObservedPrice | null; testimony: Testimony; asked?: AskedFeed }
/** A feed that fails gives no price: it never stops a purchase. */
export type Feed = () => Promise<Observation>

export type FeedOptions = {
  clock: () => Instant
  /** Called with the reason when a source gives no price. */
  warn: (message: string) => void
  /** The origins of exchanges, for operators who reach them through their own proxy. */
  origins?: Partial<Record<Exchange, string>>
}

export const FEED_WORDS =
  'none, static:PRICE, coinbase, kraken, bitstamp, gemini, median or https://...#/json/pointer'
const STATIC = /^static:(\d{1,8}(?:\.\d{1,8})?)$/

/** Throws a usage Problem for a SPEC that is not one of FEED_WORDS. */
export function createFeed(spec: string, options: FeedOptions): Feed {
  if (spec === 'none') return async () => ({ price: null, testimony: 'none' })
  const fixed = STATIC.exec(spec)?.[1]
  if (fixed !== undefined && /[1-9]/.test(fixed)) return fixedPrice(price(fixed), spec)
  if (spec === 'median') return medianFeed(options)
  if (isExchange(spec)) return () => askExchange(spec, options)
  const url = tickerUrl(spec)
  if (url) return () => ask({ name: url.host, shown: url.origin, url, read: readPointer(url) }, options)
  const plain = URL.parse(spec)
  if (plain?.protocol === 'http:' && !isLoopback(plain.hostname))
    throw usage(
      `The price feed ${JSON.stringify(plain.host)} needs https: without it, anybody on the way sets the price.`,
    )
  throw usage(`Unknown price feed ${JSON.stringify(feedName(spec))}: give ${FEED_WORDS}.`)
}

/** A SPEC as it may be shown: for an address only the host, because the rest may hold a key. */
export const feedName = (spec: string): string => {
  const host = spec.includes('://') ? URL.parse(spec)?.host : spec
  return host ?? 'with an address that cannot be read'
}

export const fixedPrice =
  (value: Price, source: string): Feed =>
  async () => ({ price: { price: value, source }, testimony: 'none' })

const isExchange = (spec: string): spec is Exchange => Object.hasOwn(EXCHANGES, spec)

/** A JSON ticker at any address. Plain HTTP is allowed only on this machine: a price decides when money is spent. */
function tickerUrl(spec: string): URL | null {
  const url = URL.parse(spec)
  if (!url?.hash.startsWith('#/')) return null
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)) ? url : null
}

const readPointer = (url: URL) => (document: unknown) => ({
  price: quoteAt(document, decodeURIComponent(url.hash.slice(1))),
  at: null,
})

function askExchange(name: Exchange, options: FeedOptions): Promise<Observation> {
  const { origin, path, read } = EXCHANGES[name]
  return ask({ name, url: new URL(path, options.origins?.[name] ?? origin), read }, options)
}

/** `shown` is the SPEC with which an operator can query it again. */
type Source = { name: string; shown?: string; url: URL; read: (document: unknown) => Quote }

/** Queries one source. An answer without a usable price still gives the time. */
async function ask(
  { name, shown = name, url, read }: Source,
  { clock, warn }: FeedOptions,
): Promise<Observation> {
  let testimony: Testimony = 'silent'
  try {
    const { document, servedAt, ageMs } = await fetchJson(url)
    testimony = tell(name, servedAt, clock())
    const quote = read(document)
    testimony = tell(name, [...servedAt, quote.at], clock())
    refuseStale(quote, ageMs, clock())
    return { price: { price: quote.price, source: name }, testimony, asked: { name: shown, failure: null } }
  } catch (error) {
    const failure = (error as Error).message
    warn(`price feed ${name}: ${failure}`)
    return { price: null, testimony, asked: { name: shown, failure } }
  }
}

function medianFeed(options: FeedOptions): Feed {
  const names = Object.keys(EXCHANGES) as Exchange[]
  return async () => {
    const answers = await Promise.all(names.map((name) => askExchange(name, options)))
    const testimony = majority(
      'the median of exchanges',
      answers.map((answer) => answer.testimony),
    )
    const quotes = answers.flatMap(({ price }) => price ?? [])
    const middle = median(quotes.map((quote) => quote.price))
    if (middle === null) {
      const prices =
        quotes.length === 0
          ? 'no source answered'
          : `${quotes.length} of ${names.length} sources, no two agree`
      options.warn(`price feed median: ${prices}`)
      const reasons = answers.flatMap(({ asked }) =>
        asked?.failure ? `${asked.name}: ${asked.failure}` : [],
      )
      return { price: null, testimony, asked: { name: 'median', failure: [prices, ...reasons].join('; ') } }
    }
    return { price: { price: middle, source: 'median' }, testimony, asked: { name: 'median', failure: null } }
  }
}

/** A quote must be as fresh as a stored price. One as far in the future shows that a clock is wrong. */
function refuseStale(quote: Quote, ageMs: number, now: Instant): void {
  if (ageMs > PRICE_LIVE_MS)
    throw new Error(`its answer comes from a cache, where it is ${spellSpan(ageMs)} old`)
  if (quote.at !== null && Math.abs(now - quote.at) > PRICE_LIVE_MS) {
    const span = spellSpan(Math.abs(now - quote.at))
    throw new Error(quote.at < now ? `its price is ${span} old` : `its price is dated ${span} ahead`)
  }
}

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
  // Kraken answers 200 with its errors in the body, and has its own names for the pair.
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

// How a price is read from a JSON answer of any shape: numbers stay text until they are exact.

type Quote = { price: Price; at: Instant | null }

const NUMBER = /^\d{1,8}(\.\d+)?$/
const PLACES_MAX = 18

/** A positive price from text. Throws on anything else: zero, a sign, an exponent, "NaN". */
export function positive(value: unknown, name = 'price'): Price {
  if (typeof value !== 'string' || !NUMBER.test(value))
    throw new Error(`its ${name} is ${JSON.stringify(value)}`)
  const point = value.indexOf('.')
  const exact = price(point < 0 ? value : value.slice(0, point + 1 + PLACES_MAX))
  if (exact === 0n) throw new Error(`its ${name} is zero`)
  return exact
}

/** The middle of bid and ask; the last trade where they are missing or crossed. */
function middle(ticker: { bid: unknown; ask: unknown; last: unknown }): Price {
  try {
    const [bid, ask] = [positive(ticker.bid, 'bid'), positive(ticker.ask, 'ask')]
    if (bid <= ask) return ((bid + ask) / 2n) as Price
  } catch {
    // A ticker without a book still has its last trade.
  }
  return positive(ticker.last, 'last price')
}

/** The price that a JSON pointer (RFC 6901) leads to. */
function quoteAt(document: unknown, pointer: string): Price {
  let value = document
  for (const part of pointer.split('/').slice(1))
    value = member(value, part.replaceAll('~1', '/').replaceAll('~0', '~'))
  return positive(value)
}

/** A member of an object or an array, by name or number. Throws when there is none. */
function member(value: unknown, name: string): unknown {
  if (value === null || typeof value !== 'object' || !Object.hasOwn(value, name))
    throw new Error(`its answer has no ${JSON.stringify(name)}`)
  return (value as Record<string, unknown>)[name]
}

export const SOURCES_MIN = 2
/** The largest distance of a source from the median, as a share of it, before it counts as wrong. */
export const OUTLIER_SHARE = 0.02

/** The median of the prices near the median of all; null when fewer than SOURCES_MIN are left. */
function median(prices: readonly Price[]): Price | null {
  const centre = middleOf(prices)
  if (centre === null) return null
  const near = prices.filter(
    (one) => Math.abs(priceAsNumber(one) / priceAsNumber(centre) - 1) <= OUTLIER_SHARE,
  )
  return near.length < SOURCES_MIN ? null : middleOf(near)
}

function middleOf(prices: readonly Price[]): Price | null {
  const sorted = [...prices].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
  const upper = sorted[Math.floor(sorted.length / 2)]
  const lower = sorted[Math.ceil(sorted.length / 2) - 1]
  return upper === undefined || lower === undefined ? null : (((upper + lower) / 2n) as Price)
}
