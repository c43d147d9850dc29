// What an operator reaches for when something is wrong; each is written with its line of the audit log.

import type { Correction, TradeSeen } from '../core/adjustment.ts'
import type { Execution } from '../core/execution.ts'
import type { Instant } from '../core/instant.ts'
import type { Tenant } from '../core/partner.ts'
import type { Trade } from '../core/trade.ts'
import type { User } from '../core/user.ts'
import type { Window } from '../core/window.ts'
import type { AuditEntry } from './store.ts'

export interface LeverStore {
  /** Ends an open execution. Throws execution_not_found, and what `decide` throws. */
  cancelExecution(
    executionId: string,
    decide: (
      seen: { execution: Execution; window: Window; trade: Trade | null },
      now: Instant,
    ) => { execution: Execution; window: Window },
    audit: AuditEntry,
  ): Promise<void>
  /** Adds an adjustment to a trade; its window follows. `audit` is told what changed. */
  adjustTrade(
    executionId: string,
    decide: (seen: TradeSeen, now: Instant) => Correction,
    audit: (made: Correction) => AuditEntry,
  ): Promise<Correction>
  /**
   * Removes a user's e-mail and provider, from the file's bytes as well. Safe to repeat. Throws user_not_found.
   * `gone` is false when the file still holds the e-mail's text, in another row or because a reader kept the log.
   */
  eraseUser(
    tenant: Tenant,
    partnerUserId: string,
    audit: AuditEntry,
  ): Promise<{ user: User; erasedAt: Instant; gone: boolean }>
}
