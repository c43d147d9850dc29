// What a screen shows beside the vitals: what happened lately, and the version of the schema.

import { recentReader } from '../../common/health/latest-passes-and-executions.ts'
import { sealReader } from '../../copying/read-seal.ts'
import type { StatusStore } from '../../status.ts'
import type { Connection } from '../server/connection.ts'
import { readerOf } from '../server/reader.ts'
import { query } from '../server/statement.ts'

const MIGRATIONS = query<{ n: bigint }>('select count(*) as n from migrations')

export const createStatusStore = (connection: Connection): StatusStore => ({
  readRecent: recentReader(readerOf(connection)),
  schemaVersion: async () => Number((await connection.look((tx) => tx.get(MIGRATIONS)))?.n),
  readSeal: sealReader(readerOf(connection)),
})
