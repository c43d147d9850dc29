// The migrations of a database: which are applied and which are pending, and the refusal of a schema newer than this
// program.

import { Problem } from '../core/problem.ts'
import type { Instant } from '../core/time.ts'
import { instant } from './statement.ts'

export type MigrationState = { name: string; sha256: string; appliedAt: Instant | null }

/** The record of a migration in a database. */
export type Applied = { sha256: string; appliedAt: Instant }

export const appliedIn = (rows: readonly unknown[]): Map<string, Applied> =>
  new Map(
    (rows as { name: string; sha256: string; applied_at: bigint }[]).map((row) => [
      row.name,
      { sha256: row.sha256, appliedAt: instant(row.applied_at) },
    ]),
  )

/** Every migration known to this program, with when it was applied. Throws schema_newer for an unknown one. */
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

/** How long a read trusts the last look at the migrations. A write always looks. */
const LOOK_MS = 100

type SchemaWatch = {
  /** Whether a read must look again. */
  isDue: () => boolean
  /** Gets the last recorded migration. Throws schema_newer for one that this program does not know. */
  found: (last: string | null) => void
}

export function createSchemaWatch(known: readonly { name: string }[]): SchemaWatch {
  const lastKnown = known.at(-1)?.name ?? ''
  let lookedAt = Number.NEGATIVE_INFINITY
  return {
    isDue: () => performance.now() - lookedAt >= LOOK_MS,
    found(last) {
      const isNewer = last !== null && last > lastKnown
      // After a refusal, every call looks again, and is refused too.
      lookedAt = isNewer ? Number.NEGATIVE_INFINITY : performance.now()
      if (isNewer) throw newer(last)
    },
  }
}

/** Whether the schema is newer, or not the one that was opened, so that nothing may be written. */
export const isOtherSchema = (error: unknown): boolean =>
  error instanceof Problem && ['schema_newer', 'database_gone'].includes(error.code)

const newer = (name: string): Problem =>
  new Problem(
    'schema_newer',
    `The database has migration ${name}, which this version of tranche does not know: upgrade tranche, and leave the database as it is.`,
  )
