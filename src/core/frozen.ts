// Frozen: the one state of a database that must not act. An operator stopped it, it was put back from a copy, it has
// moved elsewhere, or its server goes on under another timeline. Nothing fires and nothing is delivered; purchases are
// recorded, except in a database that has moved, which takes no write at all.

import { Problem } from './problem.ts'
import { formatInstant, type Instant } from './time.ts'

export type FrozenKind = 'operator' | 'restored' | 'moved' | 'timeline'

export type Frozen = {
  kind: FrozenKind
  at: Instant
  /** The user of the operating system, or `tranche` where the service did it by itself. */
  by: string
  reason: string
  /** Where it has moved to, without a password; null unless it has. */
  movedTo: string | null
  /** The names under which the databases are kept that it has replaced, the latest first. */
  replaced: readonly string[]
}

/** The command that ends it. */
export const RESUME = ['tranche', 'resume'] as const
/** What to read before that. */
export const FROZEN_GUIDE = ['tranche', 'docs', 'disaster'] as const

export const frozenInWords = ({ at, by, reason }: Frozen): string =>
  `frozen since ${formatInstant(at)} by ${by}: ${reason}`

/** As scripts and monitoring read it. */
export const frozenFields = ({ at, by, reason, kind }: Frozen) => ({
  at: formatInstant(at),
  by,
  reason,
  kind,
})

export const movedInWords = ({ at, movedTo }: Frozen): string =>
  `This database moved to ${movedTo} on ${formatInstant(at)} and takes no more writes. Use that one; see "Moving to another database" in \`tranche docs operations\`.`

/** The refusal of what a database that is frozen, and has not moved, does not do. */
export class FrozenProblem extends Problem {
  readonly frozen: Frozen
  /** Why, as a partner may read it: where a copy lay is nobody's to know. */
  readonly told: string

  constructor(frozen: Frozen) {
    super(
      'database_frozen',
      `The database is ${frozenInWords(frozen)}. Nothing fires and nothing is delivered until an operator runs \`${RESUME.join(' ')}\`; see \`${FROZEN_GUIDE.join(' ')}\`.`,
    )
    this.frozen = frozen
    this.told = frozen.kind === 'restored' ? 'its database was restored from a backup' : frozen.reason
  }
}

/** The refusal of what a frozen database does not do: database_moved or database_frozen. */
export const frozenProblem = (frozen: Frozen): Problem =>
  frozen.kind === 'moved' ? new Problem('database_moved', movedInWords(frozen)) : new FrozenProblem(frozen)

/** Frozen with its source still in use elsewhere: what `copy --unseal` leaves, until somebody resumes it. */
export const unsealed = (moved: Frozen, by: string, at: Instant): Frozen => ({
  ...moved,
  kind: 'operator',
  at,
  by,
  reason: `taken back after it had moved to ${moved.movedTo}`,
  movedTo: null,
})
