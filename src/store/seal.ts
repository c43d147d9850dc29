// Seals: the refusal of a write to a sealed database, and the message for one that was sealed in vain.

import { Problem } from '../core/problem.ts'
import { formatInstant, type Instant } from '../core/time.ts'
import { instant, query } from './statement.ts'

/** Since when a database takes no more writes, and where it has moved to, without a password. */
export type Seal = { at: Instant; movedTo: string }

/**
 * The beginning of the message with which a sealed database itself refuses a write, by which the error is recognised.
 */
const BEGINNING = 'This database is sealed'

/** Both are stored with the seal, so that programs of every version give the same message. */
export const sealedWords = ({ at, movedTo }: Seal): string =>
  `${BEGINNING}: it moved to ${movedTo} on ${formatInstant(at)}, and takes no more writes. Use that one; see "Moving to another database" in \`tranche docs operations\`.`

export const isSealedWords = (message: string): boolean => message.startsWith(BEGINNING)

export const sealedProblem = (seal: Seal): Problem => new Problem('database_sealed', sealedWords(seal))

/** The refusal to migrate a sealed database, because a migration is a write. */
export const sealedBeforeMigration = (seal: Seal): Problem =>
  new Problem(
    'database_sealed',
    `${sealedWords(seal)} This version of tranche would have to migrate it: read it with the version that sealed it.`,
  )

/**
 * The problem of a database that was sealed for a copy that then could not get its name. It is sealed first, so that at
 * no moment both take writes. `shown` is its name without a password.
 */
export const sealedInVain = (error: unknown, shown: string): Problem =>
  new Problem(
    'storage_failed',
    `${shown} is sealed, but giving its copy the name failed: ${(error as Error).message} Run it again, or give ` +
      'the database back with `tranche copy --unseal` once it is certain that nothing uses the copy.',
  )

// Where a database has moved to.

type SealRow = { at: bigint; moved_to: string }
export const SEAL = query<SealRow>('select at, moved_to from sealed')

export const sealIn = (row: SealRow | undefined): Seal | null =>
  row ? { at: instant(row.at), movedTo: row.moved_to } : null
