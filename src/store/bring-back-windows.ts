// Windows that a clock that was ahead opened before their time, and the way back.

import type { Instant } from '../core/instant.ts'
import type { Opening, Window } from '../core/window.ts'
import type { AuditEntry } from './audit.ts'
import type { PageRequest } from './paging.ts'
import type { TenantFilter } from './partners.ts'
import type { ListedPlan } from './plans.ts'

/** A plan whose current window lies ahead of its place, and the window it should have. */
export type PlanAhead = ListedPlan & { window: Window; place: Opening }

export interface WindowStore {
  /**
   * Plans whose current window starts in the future, and later than their start_date, the grid and the money left call
   * for. Sandboxes are left out: their time moves separately. A page may be shorter than its limit, and the cursor is
   * that of the last plan looked at; null at the end.
   */
  listAhead(filter: TenantFilter, page: PageRequest): Promise<{ plans: PlanAhead[]; cursor: number | null }>
  /** Moves one of them back to its place. Null when it is already there. */
  bringBack(planId: number, audit: (plan: PlanAhead, now: Instant) => AuditEntry): Promise<PlanAhead | null>
}
