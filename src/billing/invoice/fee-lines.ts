// The lines that the total of an invoice is made of, each with its arithmetic, and why it is charged by its tier.

import { BPS_ONE, type Statement } from '../../core/fees.ts'
import { floorToCents, formatExact, formatUsd, roundToCents, type Usd } from '../../core/money.ts'
import { inCents } from './figures.ts'

export type FeeLine = { item: string; arithmetic: string; amount: Usd }

/** What the total is made of: the amounts of the lines add up to it. */
export function feeLines({ tier, activity, fees }: Statement): FeeLine[] {
  const { volume, activeUsers } = activity
  const lines: FeeLine[] = [
    {
      item: 'Volume fee',
      arithmetic: volumeArithmetic(volume, tier.rateBps, fees.volumeFee),
      amount: fees.volumeFee,
    },
    {
      item: 'User fee',
      arithmetic: `${activeUsers} active ${activeUsers === 1 ? 'user' : 'users'} x ${formatUsd(tier.perActiveUser)}`,
      amount: fees.userFee,
    },
  ]
  const sum = fees.volumeFee + fees.userFee
  if (fees.total === sum) return lines
  const arithmetic = `${formatUsd(fees.minimumFee)} - (${formatUsd(fees.volumeFee)} + ${formatUsd(fees.userFee)})`
  return [...lines, { item: 'Up to the monthly minimum', arithmetic, amount: (fees.total - sum) as Usd }]
}

/** A dollar has eight places, a basis point four. */
const PRODUCT_PLACES = 12

/** With the volume to the cent; with all its places where that would come to another fee. */
function volumeArithmetic(volume: Usd, bps: number, fee: Usd): string {
  if (volume < 0n) return `${inCents(volume)} is below zero and charged as 0.00; nothing is carried over`
  const cut = floorToCents(volume)
  const charged = roundToCents(cut * BigInt(bps), BPS_ONE) === fee ? cut : volume
  const exact = formatExact(charged * BigInt(bps), PRODUCT_PLACES)
  const rounded = exact === formatUsd(fee) ? '' : ', rounded half-even to the cent'
  return `${formatUsd(charged)} x ${bps} / 10,000 = ${exact}${rounded}`
}

/** Why the month is charged by this tier. */
export function tierReason({ tenant, tier, tierSource, activity }: Statement): string {
  if (tierSource === 'override') return `set for ${tenant.partnerSlug}, whatever its volume`
  const volume = `the volume of ${inCents(activity.volume)}`
  return tier.minVolume !== null && activity.volume >= tier.minVolume
    ? `${volume} reaches its ${formatUsd(tier.minVolume)} and no higher tier`
    : `${volume} reaches no tier, and this is the lowest`
}
