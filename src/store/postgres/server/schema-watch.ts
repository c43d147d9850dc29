// Whether the schema is still one that this program knows: another host may have been upgraded, and have migrated the
// database, while this process has its connections open. A migration waits for every write under way and keeps the next
// ones waiting (migrate.ts), so what a write sees at its gate holds until its commit.
//
// And whether it is still the schema that was opened: a restore gives the name to another one. A restore waits until
// nobody uses the database (in-use.ts), but it cannot see a process that was cut off meanwhile.

import { Problem } from '../../../core/problem.ts'
import { readMigrations } from '../../../resources.ts'
import { createSchemaWatch } from '../../schema-version.ts'
import type { Tx } from './pipeline.ts'
import { query } from './statement.ts'

/** `identity` is the schema's own, which it keeps under another name and on a standby. */
export type SchemaSeen = { last_applied: string | null; identity: bigint }
/** Its columns. */
export const SCHEMA_SQL = `(select max(name) from migrations) as last_applied,
  current_schema()::regnamespace::oid::int8 as identity`
const SEEN = query<SchemaSeen>(`select ${SCHEMA_SQL}`)

export type SchemaLook = {
  /** Throws schema_newer and database_gone; once it has thrown the latter, it always does. */
  found: (seen: SchemaSeen) => void
  /** Runs some reading, and looks at the same time unless it has just looked. Throws the same. */
  beside<T>(tx: Tx, reading: () => Promise<T>): Promise<T>
  /** Throws the same. */
  look(tx: Tx): Promise<void>
}

/** The schema that the first look finds is the one that is watched. */
export function watchSchema(server: string): SchemaLook {
  const watch = createSchemaWatch(readMigrations('postgres'))
  let opened: bigint | undefined
  let gone: Problem | null = null
  function found({ last_applied, identity }: SchemaSeen): void {
    opened ??= identity
    if (identity !== opened) gone ??= replaced(server)
    if (gone) throw gone
    watch.found(last_applied)
  }
  const look = async (tx: Tx): Promise<void> => {
    const row = await tx.get(SEEN)
    if (row) found(row)
  }
  return {
    found,
    look,
    async beside(tx, reading) {
      if (gone) throw gone
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

const replaced = (server: string): Problem =>
  new Problem(
    'database_gone',
    `${server} was replaced while it was open, so nothing more is stored: restart this process if it is to work on what is there now.`,
  )
