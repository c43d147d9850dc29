// Where a pass gets its price from: a SPEC on the command line becomes a feed.

import type { Testimony } from '../core/clock-dispute.ts'
import { spellSpan } from '../core/duration-words.ts'
import type { Instant } from '../core/instant.ts'
import { PRICE_LIVE_MS } from '../core/live-price.ts'
import { type Price, price } from '../core/money.ts'
import { Problem } from '../core/problem.ts'
import type { AskedFeed, ObservedPrice } from '../store/prices.ts'
import { majority, tell } from './clock-witness.ts'
import { EXCHANGES, type Exchange } from './exchanges.ts'
import { fetchJson, isLoopback } from './fetch-json.ts'
import { median } from './median.ts'
import { type Quote, quoteAt } from './read-quote.ts'

/**
 * What a look at a feed brings: a price, unless it has none to give, and the time that the same answers tell. `asked`
 * is what an operator is told of it; nobody was asked for a price that is fixed.
 */
export type Observation = { price: ObservedPrice | null; told: Testimony; asked?: AskedFeed }
/** A feed that fails gives no price: it never stops a purchase. */
export type Feed = () => Promise<Observation>

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
  if (spec === 'none') return async () => ({ price: null, told: 'none' })
  const fixed = STATIC.exec(spec)?.[1]
  if (fixed !== undefined && /[1-9]/.test(fixed)) return fixedPrice(price(fixed), spec)
  if (spec === 'median') return medianFeed(options)
  if (isExchange(spec)) return () => askExchange(spec, options)
  const url = tickerUrl(spec)
  if (url) return () => ask({ name: url.host, shown: url.origin, url, read: readPointer(url) }, options)
  const plain = URL.parse(spec)
  if (plain?.protocol === 'http:' && !isLoopback(plain.hostname))
    throw new Problem(
      'usage',
      `The price feed ${JSON.stringify(plain.host)} needs https: without it, anybody on the way sets the price.`,
    )
  throw new Problem('usage', `Unknown price feed ${JSON.stringify(feedName(spec))}: give ${FEED_WORDS}.`)
}

/** A SPEC as it may be shown: of an address only the host, because the rest may hold a key. */
export const feedName = (spec: string): string => {
  const host = spec.includes('://') ? URL.parse(spec)?.host : spec
  return host ?? 'with an address that cannot be read'
}

export const fixedPrice =
  (value: Price, source: string): Feed =>
  async () => ({ price: { price: value, source }, told: 'none' })

const isExchange = (spec: string): spec is Exchange => Object.hasOwn(EXCHANGES, spec)

/** A JSON ticker of anybody's. Plain HTTP only from this very machine: a price decides when money is spent. */
function tickerUrl(spec: string): URL | null {
  const url = URL.parse(spec)
  if (!url?.hash.startsWith('#/')) return null
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)) ? url : null
}

const readPointer =
  (url: URL) =>
  (document: unknown): Quote => ({
    price: quoteAt(document, decodeURIComponent(url.hash.slice(1))),
    at: null,
  })

function askExchange(name: Exchange, options: FeedOptions): Promise<Observation> {
  const { origin, path, read } = EXCHANGES[name]
  return ask({ name, url: new URL(path, options.origins?.[name] ?? origin), read }, options)
}

/** `shown` is the name by which an operator can ask it again. */
type Source = { name: string; shown?: string; url: URL; read: (document: unknown) => Quote }

/** Asks one source. An answer without a usable price still tells the time. */
async function ask(
  { name, shown = name, url, read }: Source,
  { clock, warn }: FeedOptions,
): Promise<Observation> {
  let told: Testimony = 'silent'
  try {
    const { document, at } = await fetchJson(url)
    told = tell(name, [at], clock())
    const quote = read(document)
    told = tell(name, [at, quote.at], clock())
    refuseStale(quote, clock())
    return { price: { price: quote.price, source: name }, told, asked: { name: shown, failure: null } }
  } catch (error) {
    const failure = (error as Error).message
    warn(`price feed ${name}: ${failure}`)
    return { price: null, told, asked: { name: shown, failure } }
  }
}

function medianFeed(options: FeedOptions): Feed {
  const names = Object.keys(EXCHANGES) as Exchange[]
  return async () => {
    const answers = await Promise.all(names.map((name) => askExchange(name, options)))
    const told = majority(
      'the median of exchanges',
      answers.map((answer) => answer.told),
    )
    const seen = answers.flatMap(({ price }) => price ?? [])
    const middle = median(seen.map((quote) => quote.price))
    if (middle === null) {
      const prices =
        seen.length === 0 ? 'no source answered' : `${seen.length} of ${names.length} sources, no two agree`
      options.warn(`price feed median: ${prices}`)
      const reasons = answers.flatMap(({ asked }) =>
        asked?.failure ? `${asked.name}: ${asked.failure}` : [],
      )
      return { price: null, told, asked: { name: 'median', failure: [prices, ...reasons].join('; ') } }
    }
    return { price: { price: middle, source: 'median' }, told, asked: { name: 'median', failure: null } }
  }
}

/** A quote must be live, as a stored price must; as far ahead of the time it means that one of two clocks is wrong. */
function refuseStale(quote: Quote, now: Instant): void {
  if (quote.at !== null && Math.abs(now - quote.at) > PRICE_LIVE_MS) {
    const span = spellSpan(Math.abs(now - quote.at))
    throw new Error(quote.at < now ? `its price is ${span} old` : `its price is dated ${span} ahead`)
  }
}
