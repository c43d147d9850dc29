// What a screen shows beside the vitals: what happened lately, and the version of the schema.

import { recentReader } from '../../common/health/latest-passes-and-executions.ts'
import { sealReader } from '../../copying/read-seal.ts'
import type { StatusStore } from '../../status.ts'
import type { Connection } from '../file/connection.ts'
import { readerOf } from '../file/reader.ts'

export function createStatusStore(connection: Connection): StatusStore {
  const migrations = connection.db.prepare<[], bigint>('select count(*) from migrations').pluck()
  return {
    readRecent: recentReader(readerOf(connection)),
    schemaVersion: async () => Number(migrations.get()),
    readSeal: sealReader(readerOf(connection)),
  }
}
