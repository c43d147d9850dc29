// Writes that were answered and that the database has lost since: its server came back without its last ones.

import { counted } from './counted.ts'
import { spellSpan } from './duration-words.ts'
import { formatInstant, type Instant } from './instant.ts'
import { Problem } from './problem.ts'

/** What is undecided: at least how many writes, from when to when, whose, and what became of the server. */
export type LostWrites = {
  /** The newest of them; a greater one is news. */
  lostId: number
  foundAt: Instant
  writes: number
  firstAt: Instant
  lastAt: Instant
  tenants: string
  server: string
}

/** The command that lets the database go on. */
export const RESUME = ['tranche', 'restore', '--resume'] as const

export const lostInWords = ({ writes, firstAt, lastAt, tenants, server }: LostWrites): string =>
  `the server came back without ${counted(writes, 'write')} or more that had been answered, from ` +
  `${formatInstant(firstAt)} to ${formatInstant(lastAt)} (${spellSpan(lastAt - firstAt)})` +
  `${tenants === '' ? '' : `, of ${tenants}`} (${server})`

/** What is refused meanwhile: whatever fires, hands out, or changes what fires. */
export const writesLost = (): Problem =>
  new Problem(
    'writes_lost',
    'The database stands still: its server came back without writes that had been answered. Nothing fires and nothing ' +
      `is handed out until an operator has compared the books and run \`${RESUME.join(' ')}\`; see "When answered writes are lost" in ` +
      '`tranche docs postgres`.',
  )
