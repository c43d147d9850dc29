// Exchanges on this machine: servers that answer like the real ones, well and badly.

import { createServer, type RequestListener } from 'node:http'
import type { TestContext } from 'node:test'
import type { Testimony } from '../../src/core/clock.ts'
import { price } from '../../src/core/money.ts'
import { createFeed, type FeedOptions } from '../../src/price/feed.ts'
import type { ObservedPrice } from '../../src/store/store.ts'
import { listen, T0 } from '../support/service.ts'

export type Answer = { status?: number; headers?: Record<string, string>; body: string } | RequestListener

/** Serves one answer to every request, and records the requests. */
export async function startTicker(
  t: Pick<TestContext, 'after'>,
  answer: Answer,
): Promise<{ origin: string; asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    if (typeof answer === 'function') return answer(request, response)
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers })
    return response.end(answer.body)
  })
  const { port } = await listen(t, server)
  return { origin: `http://127.0.0.1:${port}`, asked }
}

export type Reading = { observed: ObservedPrice | null; testimony: Testimony; warnings: string[] }

/** Queries a feed once, at T0. */
export async function read(spec: string, origins: FeedOptions['origins'] = {}): Promise<Reading> {
  const warnings: string[] = []
  const feed = createFeed(spec, { clock: () => T0, warn: (message) => warnings.push(message), origins })
  const { price: observed, testimony } = await feed()
  return { observed, testimony, warnings }
}

export const json = (value: unknown): Exclude<Answer, RequestListener> => ({ body: JSON.stringify(value) })
export const quoted = (usd: string, source: string): ObservedPrice => ({ price: price(usd), source })

/** The answers of the four exchanges for one price, as they look at T0. */
export const tickersAt = (usd: string) => ({
  coinbase: {
    trade_id: 86326522,
    price: usd,
    size: '0.01',
    time: '2026-01-05T00:00:00.082Z',
    bid: usd,
    ask: usd,
    volume: '5957.1',
  },
  kraken: {
    error: [],
    result: { XXBTZUSD: { a: [usd, '1', '1.000'], b: [usd, '1', '1.000'], c: [usd, '0.006'] } },
  },
  bitstamp: { last: usd, bid: usd, ask: usd, timestamp: String(T0 / 1000), open: '1', volume: '213.2' },
  gemini: { bid: usd, ask: usd, last: usd, volume: { BTC: '2210.5', USD: '2135477.46', timestamp: T0 } },
})
