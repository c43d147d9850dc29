// Reads a demonstration's plans back from the store: every window with its tranches, its trades and what was left.

import type { Execution } from '../../core/execution.ts'
import { type Btc, type Usd, ZERO_USD } from '../../core/money.ts'
import type { Trade } from '../../core/trade.ts'
import { leftOf, type Window } from '../../core/window.ts'
import type { ListedPlan } from '../../store/plans.ts'
import type { Store } from '../../store/store.ts'
import { leftBecauseOf } from './left-because.ts'
import { PARTNER, type Story } from './play.ts'

export type ReadTranche = Execution & { trade: Trade | null }

export type ReadWindow = {
  window: Window
  tranches: ReadTranche[]
  bought: Btc
  left: Usd
  leftBecause: string | null
  /** It was open from its first moment to its last. */
  ranItsCourse: boolean
}

export type ReadPlan = { plan: ListedPlan; windows: ReadWindow[] }

const PAGE_MAX = 1_000

export async function readPlans({ to }: Story, store: Store): Promise<ReadPlan[]> {
  const minTranche = (await store.findPartner(PARTNER.partnerSlug))?.minTranche ?? ZERO_USD
  const tranches = Map.groupBy(await readTranches(store), ({ windowId }) => windowId)
  const rows = await store.listPlans(
    { slug: PARTNER.partnerSlug, environment: 'test' },
    { after: null, limit: PAGE_MAX },
  )
  const plans: ReadPlan[] = []
  for (const plan of rows) {
    const [found] = await store.findPlans(plan.partnerPlanId)
    const windows = (found?.windows ?? []).map((window): ReadWindow => {
      const own = tranches.get(window.windowId) ?? []
      const left = leftOf(window)
      const ranItsCourse = window.closed
        ? window.closed.reason === 'ended'
        : plan.status === 'active' && window.end <= to
      const leftBecause = left === ZERO_USD ? null : leftBecauseOf({ plan, window, left, minTranche })
      return { window, tranches: own, bought: boughtIn(own), left, leftBecause, ranItsCourse }
    })
    plans.push({ plan, windows })
  }
  return plans
}

async function readTranches(store: Store): Promise<ReadTranche[]> {
  const filter = { slug: PARTNER.partnerSlug, environment: 'test' as const, status: null, stuck: false }
  const tranches: ReadTranche[] = []
  for (let after: string | null = null; ; ) {
    const page = await store.listExecutions(filter, { after, limit: PAGE_MAX })
    for (const row of page) {
      const trade = (await store.findExecution(row.executionId))?.trade ?? null
      tranches.push({ ...row, trade })
    }
    const last = page.at(-1)
    if (!last || page.length < PAGE_MAX) return tranches
    after = last.executionId
  }
}

const boughtIn = (tranches: readonly ReadTranche[]): Btc =>
  tranches.reduce(
    (sum, { trade }) => (trade && 'btcAmount' in trade.report ? sum + trade.report.btcAmount : sum),
    0n,
  ) as Btc
