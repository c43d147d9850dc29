// How many plans a page of a pass has: as many as keep the write lock no longer than others should wait for it. Over
// few plans, a thousand take 20 ms with their commit; over a million, whose pages of the file are all new to the
// cache, 40.

/**
 * How long the work on a page should take, without its commit: when nobody else writes, and when some do. What a commit
 * waits for the disk is the same for every page: on a slow disk, smaller ones would only make it wait more often.
 */
const PAGE_MS = { alone: 15, shared: 4 }
/** Fewer plans would cost the pass more in commits than they spare others in waiting. */
const PLANS_MIN = 100
/** In the first page, of which nothing is known. */
const PLANS_AT_FIRST = 250

export type PageSize = {
  /** How many plans the next page has, `max` at most. */
  next(max: number, isShared: boolean): number
  /** To be told of each page, without its commit. */
  note(page: { plans: number; ms: number }): void
}

export function createPageSize(): PageSize {
  let msPerPlan: number | null = null
  let plansBefore = PLANS_AT_FIRST

  return {
    next(max, isShared) {
      const fit = msPerPlan === null ? plansBefore : PAGE_MS[isShared ? 'shared' : 'alone'] / msPerPlan
      // No more than twice the page before: one that was quick by chance says little of those that come.
      plansBefore = Math.min(max, Math.max(PLANS_MIN, Math.floor(Math.min(fit, 2 * plansBefore))))
      return plansBefore
    },
    note({ plans, ms }) {
      // A few plans alone, as after a page that failed, say more of a commit than of plans.
      if (plans >= PLANS_MIN) msPerPlan = ms / plans
    },
  }
}
