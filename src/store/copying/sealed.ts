// What a sealed database says to whoever would write to it.

import { formatInstant, type Instant } from '../../core/instant.ts'
import { Problem } from '../../core/problem.ts'

/** That a database takes no more writes, since when, and where it has moved to: as it may be shown. */
export type Seal = { at: Instant; movedTo: string }

/** How the words begin that a sealed database itself refuses a write with: so is the refusal told from any other. */
const BEGINNING = 'This database is sealed'

/** Both are stored with the seal, so that a program of any version is told the same. */
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
