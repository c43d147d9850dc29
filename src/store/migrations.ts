// What is known of the migrations of a database.

import { formatInstant, type Instant } from '../core/instant.ts'

export type MigrationState = { name: string; sha256: string; appliedAt: Instant | null }

/** One line per migration, for a person. */
export const describeMigration = (state: MigrationState): string =>
  `${state.name} ${state.appliedAt === null ? 'pending' : `applied ${formatInstant(state.appliedAt)}`}`
