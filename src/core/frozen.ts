// Frozen: the one state of a database that must not act. An operator froze it, it was restored from a copy, it has
// moved elsewhere, or its server is on another timeline. Nothing fires and nothing is delivered. Purchases are still
// recorded, except in a database that has moved, which takes no writes at all.

import { Problem } from './problem.ts'
import { formatInstant, type Instant } from './time.ts'

export type FrozenKind = 'operator' | 'restored' | 'moved' | 'timeline'

export type Frozen = {
  kind: FrozenKind
  at: Instant
  /** The user of the operating system, or `tranche` where the service froze it by itself. */
  by: string
  reason: string
  /** The address it has moved to, without a password; null unless it has. */
  movedTo: string | null
  /** The names of the databases it has replaced, which are kept, the latest first. */
  replaced: readonly string[]
}

export const RESUME = ['tranche', 'resume'] as const
export const FROZEN_GUIDE = ['tranche', 'docs', 'disaster'] as const

export const frozenInWords = ({ at, by, reason }: Frozen): string =>
  `frozen since ${formatInstant(at)} by ${by}: ${reason}`

export const frozenJson = ({ at, by, reason, kind }: Frozen) => ({
  at: formatInstant(at),
  by,
  reason,
  kind,
})

export const movedInWords = ({ at, movedTo }: Frozen): string =>
  `This database moved to ${movedTo} on ${formatInstant(at)} and takes no more writes. Use that one; see "Moving to another database" in \`tranche docs operations\`.`

/** The refusal of an action that a frozen database, which has not moved, does not take. */
export class FrozenProblem extends Problem {
  readonly frozen: Frozen
  /** The reason as a partner may read it: without the place of the copy. */
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

export const frozenProblem = (frozen: Frozen): Problem =>
  frozen.kind === 'moved' ? new Problem('database_moved', movedInWords(frozen)) : new FrozenProblem(frozen)

/** A frozen state whose source is still in use elsewhere: set by `copy --unseal`, until somebody resumes it. */
export const unsealed = (moved: Frozen, by: string, at: Instant): Frozen => ({
  ...moved,
  kind: 'operator',
  at,
  by,
  reason: `taken back after it had moved to ${moved.movedTo}`,
  movedTo: null,
})
