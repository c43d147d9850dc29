// What is known of the service at a glance: the latest passes and their feed, the clock, each partner, the disk.

import { FEED_PASSES_SEEN } from '../../../core/alarm-thresholds.ts'
import type { Instant } from '../../../core/instant.ts'
import type { LostWrites } from '../../../core/lost-writes.ts'
import type { DiskSeen, FeedSeen } from '../../../core/vitals.ts'
import { SEAL, type SealRow, sealIn } from '../../copying/read-seal.ts'
import type { MonitoringStore, Stock } from '../../monitoring.ts'
import { type DisputeRow, disputeOf } from '../../rows/clock-dispute.ts'
import { instant } from '../../rows/instant.ts'
import { type PriceRow, priceOf } from '../../rows/price.ts'
import { ask, type Reader, sql } from '../reader.ts'
import { earlyFillsReader } from './early-fills.ts'
import type { partnersReader } from './partners-seen.ts'

type AskedRow = { at: bigint; feed: string; feed_failure: string | null }

const DISPUTE = sql<DisputeRow>('select clock_at, witness_at, source from clock_disputes')
const ASKED = sql<AskedRow>(
  `select at, feed, feed_failure from (select * from ticks order by tick_id desc limit :passes) x
   where feed is not null order by tick_id desc limit 1`,
)
/** The first pass after the last one that got a price. */
const DOWN_SINCE = sql<{ at: bigint }>(
  `select at from ticks where feed_failure is not null and tick_id > coalesce((
     select tick_id from ticks where feed is not null and feed_failure is null order by tick_id desc limit 1), 0)
   order by tick_id limit 1`,
)
const PRICE = sql<PriceRow>('select * from prices order by at desc limit 1')

export type VitalParts = {
  readScheduler: MonitoringStore['readScheduler']
  readPartners: ReturnType<typeof partnersReader>
  readLost: () => Promise<LostWrites | null>
  readDisk: (now: Instant) => Promise<DiskSeen | null>
}

export const vitalsReader =
  (
    reader: Reader,
    { readScheduler, readPartners, readLost, readDisk }: VitalParts,
  ): MonitoringStore['readVitals'] =>
  async (now: Instant, stock: Stock) => {
    const readEarlyFills = earlyFillsReader(reader)
    const scheduler = await readScheduler()
    const [[dispute], [seal], [asked], [price]] = await reader.together<
      [DisputeRow, SealRow, AskedRow, PriceRow]
    >(ask(DISPUTE), ask(SEAL), ask(ASKED, { passes: FEED_PASSES_SEEN }), ask(PRICE))
    const since = asked && asked.feed_failure !== null ? await reader.get(DOWN_SINCE) : undefined
    return {
      scheduler,
      dispute: dispute ? disputeOf(dispute) : null,
      seal: sealIn(seal),
      lost: await readLost(),
      feed: asked ? feedSeen(asked, since?.at ?? asked.at) : null,
      price: price ? priceOf(price) : null,
      partners: await readPartners(now, stock),
      unspent: stock.unspent,
      earlyFills: await readEarlyFills('live', now),
      disk: await readDisk(now),
    }
  }

const feedSeen = ({ at, feed: name, feed_failure: reason }: AskedRow, downSince: bigint): FeedSeen => ({
  name,
  askedAt: instant(at),
  down: reason === null ? null : { since: instant(downSince), reason },
})
