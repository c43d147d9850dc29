// What a screen shows beside the vitals: what happened lately, and the version of the schema.

import type { StatusStore } from '../../status.ts'
import type { Connection } from '../file/connection.ts'
import { createRecent } from './recent.ts'

export function createStatusStore(connection: Connection): StatusStore {
  const migrations = connection.db.prepare<[], bigint>('select count(*) from migrations').pluck()
  return {
    readRecent: createRecent(connection),
    schemaVersion: async () => Number(migrations.get()),
  }
}
