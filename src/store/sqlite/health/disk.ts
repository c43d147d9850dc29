// The disk that the file is on, and how fast the file grows.

import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { DAY_MS, type Instant, plus } from '../../../core/instant.ts'
import type { DiskSeen } from '../../../core/vitals.ts'
import { type Connection, databaseBytes } from '../file/connection.ts'
import { realName } from '../file/own-files.ts'

export function diskReader({ db, read }: Connection): (now: Instant) => Promise<DiskSeen | null> {
  const bytesSince = db
    .prepare<object, bigint>(
      'select database_bytes from ticks where at >= :since and database_bytes is not null order by tick_id limit 1',
    )
    .pluck()
  return async (now) => {
    if (db.memory) return null
    const folder = dirname(realName(db.name))
    const { bavail, bfree, blocks, bsize } = statfsSync(folder)
    const dayGrowthBytes = await read(() => {
      const before = bytesSince.get({ since: plus(now, -DAY_MS) })
      return before === undefined ? 0 : Math.max(0, databaseBytes(db) - Number(before))
    })
    return {
      folder,
      freeBytes: bavail * bsize,
      totalBytes: (blocks - bfree + bavail) * bsize,
      dayGrowthBytes,
    }
  }
}
