// What a sealed database says when something would write to it, and what is said when it was sealed for nothing.

import { Problem } from '../core/problem.ts'
import { formatInstant, type Instant } from '../core/time.ts'
import { instant, query } from './statement.ts'

/** That a database takes no more writes, since when, and where it has moved to: as it may be shown. */
export type Seal = { at: Instant; movedTo: string }

/**
 * How the message begins with which a sealed database itself refuses a write: this tells the refusal from any other
 * error.
 */
const BEGINNING = 'This database is sealed'

/** Both are stored with the seal, so that programs of every version are told the same. */
export const sealedWords = ({ at, movedTo }: Seal): string =>
  `${BEGINNING}: it moved to ${movedTo} on ${formatInstant(at)}, and takes no more writes. Use that one; see "Moving to another database" in \`tranche docs operations\`.`

export const isSealedWords = (message: string): boolean => message.startsWith(BEGINNING)

export const sealedProblem = (seal: Seal): Problem => new Problem('database_sealed', sealedWords(seal))

/** A migration would be a write. */
export const sealedBeforeMigration = (seal: Seal): Problem =>
  new Problem(
    'database_sealed',
    `${sealedWords(seal)} This version of tranche would have to migrate it: read it with the version that sealed it.`,
  )

/**
 * What is said of a database that was sealed for a copy that then could not be named. There is never a moment at which
 * both take writes, so it is sealed by then. `shown` is its name as it may be shown.
 */
export const sealedInVain = (error: unknown, shown: string): Problem =>
  new Problem(
    'storage_failed',
    `${shown} is sealed, but giving its copy the name failed: ${(error as Error).message} Run it again, or give ` +
      'the database back with `tranche copy --unseal` once it is certain that nothing uses the copy.',
  )

// Where a database has moved to.

export type SealRow = { at: bigint; moved_to: string }
export const SEAL = query<SealRow>('select at, moved_to from sealed')

export const sealIn = (row: SealRow | undefined): Seal | null =>
  row ? { at: instant(row.at), movedTo: row.moved_to } : null
