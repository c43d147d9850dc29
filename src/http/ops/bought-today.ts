// What live partners bought today, added up as it comes in: each look reads only the trades since the last one.

import { DAY_MS, type Instant } from '../../core/instant.ts'
import type { Btc, Usd } from '../../core/money.ts'
import type { OpsPageStore, TradePlace, TradeSum } from '../../store/ops-page.ts'

/** By UTC. `total` has no partner's name. */
export type Day = { since: Instant; total: TradeSum; partners: ReadonlyMap<string, TradeSum> }

const TRADES_PER_READ = 5_000
const nothing = (partnerSlug: string): TradeSum => ({
  partnerSlug,
  filled: 0,
  failed: 0,
  usd: 0n as Usd,
  btc: 0n as Btc,
})

export function createDayCounter(): (store: OpsPageStore, now: Instant) => Promise<Day> {
  let day = { since: 0 as Instant, total: nothing(''), partners: new Map<string, TradeSum>() }
  let place: TradePlace = { recordedAt: 0 as Instant, executionId: '' }

  return async (store, now) => {
    const since = (now - (now % DAY_MS)) as Instant
    if (since !== day.since) {
      day = { since, total: nothing(''), partners: new Map() }
      place = { recordedAt: since, executionId: '' }
    }
    for (;;) {
      const { sums, last } = await store.sumTradesAfter(place, now, TRADES_PER_READ)
      for (const sum of sums) {
        const known = day.partners.get(sum.partnerSlug) ?? nothing(sum.partnerSlug)
        day.partners.set(sum.partnerSlug, known)
        for (const one of [known, day.total]) {
          one.filled += sum.filled
          one.failed += sum.failed
          one.usd = (one.usd + sum.usd) as Usd
          one.btc = (one.btc + sum.btc) as Btc
        }
      }
      if (last === null) return day
      place = last
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}
