// The feed that was chosen, asked once, and what goes on without one.

import { existsSync, readFileSync } from 'node:fs'
import { formatPrice } from '../../core/money.ts'
import { createFeed, feedName } from '../../price/feed.ts'
import type { Cli } from '../context.ts'
import type { Place } from './place.ts'

export type Trial = { feed: string; price_usd: string | null; complaints: string[] }

/** The feed that the settings name, or none. */
export function readFeed({ settings }: Place): string {
  const text = existsSync(settings) ? readFileSync(settings, 'utf8') : ''
  const [, value = 'none'] = /^TRANCHE_PRICE_FEED=(.*)$/m.exec(text) ?? []
  return value.replace(/^'(.*)'$/, '$1')
}

/** Asks the feed once. Throws usage for one that there is not. */
export async function tryFeed(cli: Cli, spec: string): Promise<Trial> {
  const complaints: string[] = []
  const feed = createFeed(spec, { clock: cli.machine.clock, warn: (message) => complaints.push(message) })
  const { price } = await feed()
  return { feed: feedName(spec), price_usd: price && formatPrice(price.price), complaints }
}

const CLOCK =
  'The clock decides: tranches are spread evenly over each window, because there is no price to wait for. Each fires ' +
  'in the middle of its share of the window. The first one therefore comes two hours after a daily plan of 30.00 USD ' +
  'or more begins, three hours after a weekly one of 140.00 or a bi-weekly one of 280.00; a smaller plan has fewer ' +
  'tranches, and its first one comes later.'

/** What the answer means for the plans. */
export function feedWords({ feed, price_usd, complaints }: Trial): string {
  if (feed === 'none') return `There is no price feed. ${CLOCK}`
  if (price_usd !== null)
    return `The feed ${feed} says ${price_usd} USD: the first tranche of a plan fires at the next tick.`
  return `The feed ${feed} gave no price (${complaints.join('; ')}). Every tick asks it again; until it answers:\n${CLOCK}`
}
