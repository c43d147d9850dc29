// Why a database stands still, and how it goes on: it was put back from a copy, or has lost writes that were answered.
// What it says of the money is not to be acted on before somebody has looked.

import { Problem } from './problem.ts'
import { counted } from './text.ts'
import { formatInstant, type Instant, spellSpan } from './time.ts'

/** The command that lets the database go on. */
export const RESUME = ['tranche', 'restore', '--resume'] as const

// A database that was put back from a copy. What has happened since the copy was made is not in it: what was cancelled
// would fire again, and what was bought would be bought again.

/** When it was put back, from which copy, and the names under which what it replaced is kept, the latest first. */
export type Restored = { at: Instant; copy: string; replaced: readonly string[] }

export const restoredInWords = ({ at, copy }: Pick<Restored, 'at' | 'copy'>): string =>
  `restored from ${copy} on ${formatInstant(at)}, and stands still since`

/** What is refused meanwhile: whatever fires, delivers, or changes what fires. */
export const standsStill = (restored: Pick<Restored, 'at' | 'copy'>): Problem =>
  new Problem(
    'database_restored',
    `The database was ${restoredInWords(restored)}: nothing fires and nothing is delivered until an operator has compared it with what ` +
      `the partners have and run \`${RESUME.join(' ')}\`; see \`tranche docs disaster\`.`,
  )

// Writes that were answered and then lost: the server came back without its latest commits.

/**
 * The lost writes that nobody has decided on: at least how many, from when to when, whose, and what became of the
 * server.
 */
export type LostWrites = {
  /** The newest of them; a greater id means that more were lost since. */
  lostId: number
  foundAt: Instant
  writes: number
  firstAt: Instant
  lastAt: Instant
  tenants: string
  server: string
}

export const lostInWords = ({ writes, firstAt, lastAt, tenants, server }: LostWrites): string =>
  `the server came back without ${counted(writes, 'write')} or more that had been answered, from ` +
  `${formatInstant(firstAt)} to ${formatInstant(lastAt)} (${spellSpan(lastAt - firstAt)})` +
  `${tenants === '' ? '' : `, of ${tenants}`} (${server})`

export const writesLost = (): Problem =>
  new Problem(
    'writes_lost',
    'The database stands still: its server came back without writes that had been answered. Nothing fires and nothing ' +
      `is delivered until an operator has compared the books and run \`${RESUME.join(' ')}\`; see "When answered writes are lost" in ` +
      '`tranche docs reference`.',
  )
