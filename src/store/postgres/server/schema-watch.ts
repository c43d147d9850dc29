// Whether the schema is still one that this program knows: another host may have been upgraded, and have migrated the
// database, while this process has its connections. A migration waits for every write under way and keeps the next ones
// waiting (migrate.ts), so what a write sees at its gate holds to its commit.

import { readMigrations } from '../../../resources.ts'
import { createSchemaWatch } from '../../migrations.ts'
import { query } from './statement.ts'
import type { Tx } from './transaction.ts'

export type Applied = { last_applied: string | null }
/** Its column. */
export const APPLIED_SQL = '(select max(name) from migrations) as last_applied'
const APPLIED = query<Applied>(`select ${APPLIED_SQL}`)

export type SchemaLook = {
  /** Throws schema_newer. */
  found: (applied: Applied) => void
  /** Does some reading, and looks beside it unless the last look was just now. Throws schema_newer. */
  beside<T>(tx: Tx, reading: () => Promise<T>): Promise<T>
  /** Throws schema_newer. */
  look(tx: Tx): Promise<void>
}

export function watchSchema(): SchemaLook {
  const watch = createSchemaWatch(readMigrations('postgres'))
  const found = ({ last_applied }: Applied): void => watch.found(last_applied)
  const look = async (tx: Tx): Promise<void> => {
    const row = await tx.get(APPLIED)
    if (row) found(row)
  }
  return {
    found,
    look,
    async beside(tx, reading) {
      if (!watch.isDue()) return reading()
      // Asked first and awaited last: it costs no round trip of its own.
      const looked = look(tx)
      looked.catch(() => {})
      try {
        return await reading()
      } finally {
        await looked
      }
    },
  }
}
