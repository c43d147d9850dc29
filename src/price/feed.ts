// Where a pass gets its price from: a SPEC on the command line becomes a feed.

import { type Instant, MINUTE_MS } from '../core/instant.ts'
import { PRICE_LIVE_MS } from '../core/live-price.ts'
import { type Price, price } from '../core/money.ts'
import { Problem } from '../core/problem.ts'
import type { ObservedPrice } from '../store/prices.ts'
import { EXCHANGES, type Exchange } from './exchanges.ts'
import { median } from './median.ts'
import { fetchJson, isLoopback, type Quote, quoteAt } from './ticker.ts'

/** Reads one price, or null when it has none to give: a feed never stops a purchase. */
export type Feed = () => Promise<ObservedPrice | null>

export type FeedOptions = {
  clock: () => Instant
  /** Told why a source gave no price. */
  warn: (message: string) => void
  /** Where an exchange is reached, for those who reach it through a proxy of their own. */
  origins?: Partial<Record<Exchange, string>>
}

export const FEED_WORDS =
  'none, static:PRICE, coinbase, kraken, bitstamp, gemini, median or https://...#/json/pointer'
const STATIC = /^static:(\d{1,8}(?:\.\d{1,8})?)$/

/** Throws a usage Problem for a SPEC that is not one of FEED_WORDS. */
export function createFeed(spec: string, options: FeedOptions): Feed {
  if (spec === 'none') return async () => null
  const fixed = STATIC.exec(spec)?.[1]
  if (fixed !== undefined && /[1-9]/.test(fixed)) return fixedPrice(price(fixed), spec)
  if (spec === 'median') return medianFeed(options)
  if (isExchange(spec)) return single(spec, () => quoteOf(spec, options), options)
  const url = tickerUrl(spec)
  if (url) return single(url.host, () => customQuote(url), options)
  throw new Problem('usage', `Unknown price feed ${JSON.stringify(feedName(spec))}: give ${FEED_WORDS}.`)
}

/** A SPEC as it may be shown: of an address only the host, because a key may stand in the rest. */
export const feedName = (spec: string): string => {
  const host = spec.includes('://') ? URL.parse(spec)?.host : spec
  return host ?? 'with an address that cannot be read'
}

export const fixedPrice =
  (value: Price, source: string): Feed =>
  async () => ({ price: value, source })

const isExchange = (spec: string): spec is Exchange => Object.hasOwn(EXCHANGES, spec)

/** A JSON ticker of anybody's. Plain HTTP only from this very machine: a price decides when money is spent. */
function tickerUrl(spec: string): URL | null {
  const url = URL.parse(spec)
  if (!url?.hash.startsWith('#/')) return null
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)) ? url : null
}

const customQuote = async (url: URL): Promise<Quote> => ({
  price: quoteAt(await fetchJson(url), decodeURIComponent(url.hash.slice(1))),
  at: null,
})

async function quoteOf(name: Exchange, { clock, origins }: FeedOptions): Promise<Quote> {
  const { origin, path, read } = EXCHANGES[name]
  const quote = read(await fetchJson(new URL(path, origins?.[name] ?? origin)))
  refuseStale(quote, clock())
  return quote
}

function single(name: string, ask: () => Promise<Quote>, { warn }: FeedOptions): Feed {
  return async () => {
    try {
      return { price: (await ask()).price, source: name }
    } catch (error) {
      warn(`price feed ${name}: ${(error as Error).message}`)
      return null
    }
  }
}

function medianFeed(options: FeedOptions): Feed {
  const names = Object.keys(EXCHANGES) as Exchange[]
  const feeds = names.map((name) => single(name, () => quoteOf(name, options), options))
  return async () => {
    const seen = (await Promise.all(feeds.map((feed) => feed()))).filter((quote) => quote !== null)
    const middle = median(seen.map((quote) => quote.price))
    if (middle === null) {
      const prices =
        seen.length === 0 ? 'no source answered' : `${seen.length} of ${names.length} sources, no two agree`
      options.warn(`price feed median: ${prices}`)
      return null
    }
    return { price: middle, source: 'median' }
  }
}

/** A quote must be live, as a stored price must; as far ahead of the time it means that one of two clocks is wrong. */
function refuseStale(quote: Quote, now: Instant): void {
  if (quote.at !== null && Math.abs(now - quote.at) > PRICE_LIVE_MS) {
    throw new Error(`its price is ${Math.round((now - quote.at) / MINUTE_MS)} minutes old`)
  }
}
