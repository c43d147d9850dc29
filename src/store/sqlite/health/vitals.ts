// What is known of the service at a glance: the latest passes and their feed, the clock, each partner, the disk.

import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { FEED_PASSES_SEEN } from '../../../core/alarms.ts'
import { DAY_MS, type Instant, plus } from '../../../core/instant.ts'
import type { DiskSeen, FeedSeen } from '../../../core/vitals.ts'
import type { MonitoringStore } from '../../monitoring.ts'
import { instant } from '../../rows/instant.ts'
import { type PriceRow, priceOf } from '../../rows/price.ts'
import { type Connection, databaseBytes } from '../file/connection.ts'
import { realName } from '../file/own-files.ts'
import { createDisputes } from '../pass/disputes.ts'
import { createPartnersSeen } from './partners-seen.ts'
import { createSchedulerReader } from './scheduler.ts'

type AskedRow = { at: bigint; feed: string; feed_failure: string | null }

export function createVitals(connection: Connection): MonitoringStore['readVitals'] {
  const { db, read } = connection
  const sql = prepare(connection)
  const disputes = createDisputes(db)
  const readScheduler = createSchedulerReader(connection)
  const readPartners = createPartnersSeen(connection)

  function feedSeen(): FeedSeen | null {
    const asked = sql.asked.get({ passes: FEED_PASSES_SEEN })
    if (!asked) return null
    const { at, feed: name, feed_failure: reason } = asked
    const since = reason === null ? undefined : sql.downSince.get()
    return {
      name,
      askedAt: instant(at),
      down: reason === null ? null : { since: instant(since ?? at), reason },
    }
  }

  function diskSeen(now: Instant): DiskSeen | null {
    if (db.memory) return null
    const folder = dirname(realName(db.name))
    const { bavail, bfree, blocks, bsize } = statfsSync(folder)
    const before = sql.bytesSince.get({ since: plus(now, -DAY_MS) })
    return {
      folder,
      freeBytes: bavail * bsize,
      totalBytes: (blocks - bfree + bavail) * bsize,
      dayGrowthBytes: before === undefined ? 0 : Math.max(0, databaseBytes(db) - Number(before)),
    }
  }

  return async (now, stock) => {
    const scheduler = await readScheduler()
    const glance = await read(() => {
      const price = sql.price.get()
      return {
        dispute: disputes.standing(),
        feed: feedSeen(),
        price: price ? priceOf(price) : null,
        disk: diskSeen(now),
      }
    })
    return { scheduler, ...glance, partners: await readPartners(now, stock), unspent: stock.unspent }
  }
}

function prepare({ db }: Connection) {
  return {
    asked: db.prepare<object, AskedRow>(
      `select at, feed, feed_failure from (select * from ticks order by tick_id desc limit :passes)
       where feed is not null order by tick_id desc limit 1`,
    ),
    /** The first pass behind the last one that got a price. */
    downSince: db
      .prepare<[], bigint>(
        `select at from ticks where feed_failure is not null and tick_id > coalesce((
           select tick_id from ticks where feed is not null and feed_failure is null order by tick_id desc limit 1), 0)
         order by tick_id limit 1`,
      )
      .pluck(),
    price: db.prepare<[], PriceRow>('select * from prices order by at desc limit 1'),
    bytesSince: db
      .prepare<object, bigint>(
        'select database_bytes from ticks where at >= :since and database_bytes is not null order by tick_id limit 1',
      )
      .pluck(),
  }
}
