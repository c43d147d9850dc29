// Windows that a clock ahead has opened before their time, and the way back.

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
   * Plans with a current window that starts in the future and later than their start_date, the grid and the money left ask
   * for. Sandboxes are left alone: their time goes on by itself. A page may be shorter than its
   * limit, and the cursor is that of the last plan looked at; null at the end.
   */
  listAhead(filter: TenantFilter, page: PageRequest): Promise<{ plans: PlanAhead[]; cursor: number | null }>
  /** Gives one of them its place back. Null when it has it by now. */
  bringBack(planId: number, audit: (plan: PlanAhead, now: Instant) => AuditEntry): Promise<PlanAhead | null>
}
