// Whether the schema is still one that this program knows: another process may have been upgraded, and have migrated
// the file, while this one has it open.

import type { Database } from 'better-sqlite3'
import { readMigrations } from '../../../resources.ts'
import { createSchemaWatch } from '../../schema-version.ts'

export type SchemaLook = {
  /** Looks. Throws schema_newer. Inside a write nobody can migrate between the look and the commit. */
  look: () => void
  /** The same, unless the last look was just now. */
  lookNowAndThen: () => void
}

export const UNWATCHED_SCHEMA: SchemaLook = { look: () => {}, lookNowAndThen: () => {} }

export function watchSchema(db: Database): SchemaLook {
  const last = db.prepare<[], string | null>('select max(name) from migrations').pluck()
  const watch = createSchemaWatch(readMigrations('sqlite'))
  const look = (): void => watch.found(last.get() ?? null)
  return {
    look,
    lookNowAndThen() {
      if (watch.isDue()) look()
    },
  }
}
