// What is known of the migrations of a database.

import { formatInstant, type Instant } from '../core/instant.ts'
import { Problem } from '../core/problem.ts'

export type MigrationState = { name: string; sha256: string; appliedAt: Instant | null }

/** What a database has on record of a migration. */
export type Applied = { sha256: string; appliedAt: Instant }

/** Every migration that this program knows, with when it was applied. Throws schema_newer for one that it does not know. */
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

const newer = (name: string): Problem =>
  new Problem(
    'schema_newer',
    `The database has migration ${name}, which this version of tranche does not know: upgrade tranche, and leave the database as it is.`,
  )

/** One line per migration, for a person. */
export const describeMigration = (state: MigrationState): string =>
  `${state.name} ${state.appliedAt === null ? 'pending' : `applied ${formatInstant(state.appliedAt)}`}`
