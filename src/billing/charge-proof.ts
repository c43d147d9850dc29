// What a month must cost by the words of the guide, worked out from the tiers and overrides as they are stored. It is
// written apart from core/tier.ts and core/fees.ts on purpose: a fault in one of them is not made here again.

import type { Statement } from '../core/fees.ts'
import { formatUsd, UNITS, type Usd } from '../core/money.ts'
import type { Tier } from '../core/tier.ts'
import type { Fault } from '../store/check.ts'
import type { OverrideStart } from '../store/tiers.ts'

/** `overrides` are all of the partner, in any order. `isDue` says whether the partner was there in that month. */
export type Stored = { tiers: readonly Tier[]; overrides: readonly OverrideStart[]; isDue: boolean }

/** What a statement is charged by and comes to, as far as it is not what the stored tiers say. */
export function chargeFaults(statement: Statement, stored: Stored): Omit<Fault, 'subject'>[] {
  const { tier, source } = tierByTheGuide(statement, stored)
  const found: Omit<Fault, 'subject'>[] = []
  if (statement.tier.name !== tier.name || statement.tierSource !== source) {
    const volume = `a volume of ${formatUsd(statement.activity.volume)} USD`
    const message = `is charged by ${statement.tier.name} (${statement.tierSource}), ${volume} leads to ${tier.name} (${source})`
    found.push({ kind: 'tier_differs', message })
  }
  const total = stored.isDue && statement.billable ? feeByTheGuide(statement, tier) : 0n
  if (statement.fees.total !== total) {
    const message = `costs ${formatUsd(statement.fees.total)}, by ${tier.name} it comes to ${formatUsd(total as Usd)}`
    found.push({ kind: 'total_fee_differs', message })
  }
  return found
}

type Choice = { tier: Tier; source: 'override' | 'volume' }

function tierByTheGuide({ period, activity }: Statement, { tiers, overrides }: Stored): Choice {
  const first = tiers.map(({ fromMonth }) => fromMonth).reduce((a, b) => (a < b ? a : b))
  const month = period.month < first ? first : period.month
  const current = new Map<string, Tier>()
  const firstMonth = new Map<string, string>()
  for (const tier of tiers.filter(({ fromMonth }) => fromMonth <= month)) {
    const known = current.get(tier.name)
    if (!known || known.fromMonth < tier.fromMonth) current.set(tier.name, tier)
    const begun = firstMonth.get(tier.name)
    if (begun === undefined || tier.fromMonth < begun) firstMonth.set(tier.name, tier.fromMonth)
  }
  let named: OverrideStart | null = null
  for (const one of overrides)
    if (one.fromMonth <= period.month && (named === null || one.fromMonth > named.fromMonth)) named = one
  const override = named?.tierName ? current.get(named.tierName) : undefined
  if (override) return { tier: override, source: 'override' }
  // Older is what began in an earlier month, and of one month what was set first.
  const isOlder = (one: Tier, than: Tier): boolean => {
    const [own, other] = [firstMonth.get(one.name) ?? '', firstMonth.get(than.name) ?? '']
    return own === other ? one.place < than.place : own < other
  }
  let best: Tier | null = null
  for (const tier of current.values()) {
    if (tier.minVolume === null) continue
    if (best === null || isBetter(tier, best, activity.volume, isOlder)) best = tier
  }
  if (best === null) throw new Error('no stored tier has a volume')
  return { tier: best, source: 'volume' }
}

/** What is reached comes before what is not; of reached ones the higher, of others the lower; of equals the older. */
function isBetter(
  one: Tier,
  than: Tier,
  volume: bigint,
  isOlder: (one: Tier, than: Tier) => boolean,
): boolean {
  const [a, b] = [one.minVolume ?? 0n, than.minVolume ?? 0n]
  if (a === b) return isOlder(one, than)
  const [reachesOne, reachesOther] = [volume >= a, volume >= b]
  if (reachesOne !== reachesOther) return reachesOne
  return reachesOne ? a > b : a < b
}

/** The larger of the minimum and volume x bps / 10,000, half-even to the cent, plus the price of the active users. */
function feeByTheGuide({ activity }: Statement, tier: Tier): bigint {
  const product = activity.volume < 0n ? 0n : activity.volume * BigInt(tier.rateBps)
  const perCent = 100n * UNITS
  const [cents, rest] = [product / perCent, product % perCent]
  const isUp = rest * 2n > perCent || (rest * 2n === perCent && cents % 2n === 1n)
  const fee = ((isUp ? cents + 1n : cents) * UNITS) / 100n + BigInt(activity.activeUsers) * tier.perActiveUser
  return fee < tier.monthlyMinimum ? tier.monthlyMinimum : fee
}
