// Asks the chosen feed once, and says what happens without one.

import { formatPrice } from '../../core/money.ts'
import { createFeed, feedName } from '../../price/feed.ts'
import type { Cli } from '../context.ts'
import type { Place } from './install-places.ts'
import { readSetting } from './read-setting.ts'

export type Trial = { feed: string; price_usd: string | null; complaints: string[] }

/** The feed that the settings name, or none. Throws bad_file as `readOwn` does. */
export const readFeed = (place: Place): string => readSetting(place, 'TRANCHE_PRICE_FEED') ?? 'none'

/** Asks the feed once. Throws usage for a feed that does not exist. */
export async function tryFeed(cli: Cli, spec: string): Promise<Trial> {
  const complaints: string[] = []
  const feed = createFeed(spec, { clock: cli.machine.clock, warn: (message) => complaints.push(message) })
  const { price } = await feed()
  return { feed: feedName(spec), price_usd: price && formatPrice(price.price), complaints }
}

const CLOCK = `The clock decides. There is no price to wait for, so the tranches are spread evenly over each window, and
each fires in the middle of its share. The first one comes two hours after a daily plan of 30.00 USD or
more begins, three hours after a weekly plan of 140.00 or a bi-weekly plan of 280.00. A smaller plan has
fewer tranches, and its first one comes later.`

/** What the answer means for the plans. */
export function feedWords({ feed, price_usd, complaints }: Trial): string {
  if (feed === 'none') return `There is no price feed.\n${CLOCK}`
  if (price_usd === null)
    return `The feed ${feed} gave no price (${complaints.join('; ')}).\nEvery tick asks it again. Until it answers:\n${CLOCK}`
  return `The feed ${feed} says ${price_usd} USD. The first tranche of a plan fires at the next tick.`
}
