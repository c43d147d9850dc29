// The migrations of a database: which are applied and which are pending, and that no schema is used that is newer than
// this program.

import { Problem } from '../core/problem.ts'
import { formatInstant, type Instant } from '../core/time.ts'

export type MigrationState = { name: string; sha256: string; appliedAt: Instant | null }

/** What a database has recorded about a migration. */
export type Applied = { sha256: string; appliedAt: Instant }

/**
 * Every migration that this program knows, with when it was applied. Throws schema_newer for one that it does not know.
 */
export function statesOf(
  known: readonly { name: string; sha256: string }[],
  applied: ReadonlyMap<string, Applied>,
): MigrationState[] {
  for (const [name, { sha256 }] of applied) {
    const mine = known.find((migration) => migration.name === name)
    if (!mine) throw newer(name)
    if (mine.sha256 !== sha256) throw new Error(`migration ${name} was applied with another content`)
  }
  return known.map(({ name, sha256 }) => ({ name, sha256, appliedAt: applied.get(name)?.appliedAt ?? null }))
}

export const isPending = ({ appliedAt }: MigrationState): boolean => appliedAt === null

/** How long the last reading of the migrations counts for a read. A write reads them itself. */
const LOOK_MS = 100

type SchemaWatch = {
  /** Whether a read must read them again. */
  isDue: () => boolean
  /**
   * Takes the last migration on record. Throws schema_newer when this program does not know it: another process has
   * been upgraded since this one began.
   */
  found: (last: string | null) => void
}

export function createSchemaWatch(known: readonly { name: string }[]): SchemaWatch {
  const lastKnown = known.at(-1)?.name ?? ''
  let lookedAt = Number.NEGATIVE_INFINITY
  return {
    isDue: () => performance.now() - lookedAt >= LOOK_MS,
    found(last) {
      const isNewer = last !== null && last > lastKnown
      // Once one has been refused, all are.
      lookedAt = isNewer ? Number.NEGATIVE_INFINITY : performance.now()
      if (isNewer) throw newer(last)
    },
  }
}

/**
 * Whether an error means that the schema is newer, or is not the one that was opened, so that nothing may be written.
 */
export const isOtherSchema = (error: unknown): boolean =>
  error instanceof Problem && ['schema_newer', 'database_gone'].includes(error.code)

const newer = (name: string): Problem =>
  new Problem(
    'schema_newer',
    `The database has migration ${name}, which this version of tranche does not know: upgrade tranche, and leave the database as it is.`,
  )

/** One line per migration, for a person. */
export const describeMigration = (state: MigrationState): string =>
  `${state.name} ${state.appliedAt === null ? 'pending' : `applied ${formatInstant(state.appliedAt)}`}`
