// The account of a demonstration, read back from the ledger or computed from it. Its members are what `demo --json`
// prints; show.ts puts them into words.

import type { Trade } from '../../core/confirmation.ts'
import { EXECUTION_STATUSES, type Execution, TRIGGERS } from '../../core/execution.ts'
import {
  averagePrice,
  type Btc,
  CENT,
  formatBtc,
  formatPrice,
  formatUsd,
  type Price,
  priceAsNumber,
  type Usd,
  ZERO_USD,
} from '../../core/money.ts'
import { formatInstant } from '../../core/time.ts'
import { FREQUENCIES, leastInstruction, leftOf, type Window } from '../../core/window.ts'
import type { ListedPlan, Store } from '../../store/store.ts'
import { pagesOf } from '../terminal.ts'
import { END, PATH_STEP_MS, START, type Story } from './play.ts'

export type Account = Awaited<ReturnType<typeof readAccount>>

const ROWS_MAX = 1_000

/** Reads the whole account while the store is still open. */
export async function readAccount(story: Story, store: Store) {
  const windows = await readWindows(store)
  const tranches = windows.flatMap((read) => read.tranches)
  const { spent: _, bought: __, ...counts } = story.tally
  const lateFills = await store.listLateFills({ after: null, limit: ROWS_MAX })
  return {
    synthetic: true as const,
    seed: story.seed,
    from: formatInstant(START),
    to: formatInstant(END),
    scheduler: story.scheduler,
    plans: [...Map.groupBy(windows, ({ plan }) => plan)].map((group) => planAccount(...group)),
    // Why tranches fired, and their outcomes.
    tranches: {
      by_trigger: countBy(TRIGGERS, (trigger) => tranches.filter((row) => row.firing.trigger === trigger)),
      by_status: countBy(EXECUTION_STATUSES, (status) => tranches.filter((row) => row.status === status)),
    },
    partner: {
      ...counts,
      late_fills_kept: lateFills.length,
      cancelled_by_service: tranches.filter(({ cancelledAt }) => cancelledAt !== null).length,
    },
    prices: comparePrices(windows, story.path),
    ledger: await ledgerAccount(store, windows, story),
  }
}

const planAccount = (plan: ListedPlan, windows: readonly ReadWindow[]) => ({
  partner_plan_id: plan.partnerPlanId,
  partner_user_id: plan.partnerUserId,
  frequency: plan.frequency,
  amount_usd: formatUsd(plan.amount),
  status: plan.status,
  windows: windows.map(({ window, tranches, leftBecause }) => ({
    window_start: formatInstant(window.start),
    window_end: formatInstant(window.end),
    budget_usd: formatUsd(window.budget),
    spent_usd: formatUsd(window.spent),
    // Neither spent nor reserved any more: released, or about to be when the window rolls.
    left_usd: formatUsd(leftOf(window)),
    tranches: tranches.length,
    // Why money is left; null when the budget is spent to the last unit.
    left_because: leftBecause,
  })),
})

async function ledgerAccount(store: Store, windows: readonly ReadWindow[], { tally }: Story) {
  const faults = await store.findFaults()
  const reserved = sum(windows.map(({ window }) => window.reserved))
  const [spent, bought] = totalsOf(windows)
  const tranches = windows.flatMap((read) => read.tranches)
  const agreed = spent === tally.spent && bought === tally.bought && reserved === ZERO_USD
  return {
    ok: faults.length === 0 && agreed,
    faults,
    windows: windows.length,
    executions: tranches.length,
    trades: tranches.filter(({ trade }) => trade !== null).length,
    reserved_usd: formatUsd(reserved),
    spent_usd: formatUsd(spent),
    bought_btc: formatBtc(bought),
    partner_book_usd: formatUsd(tally.spent),
    partner_book_btc: formatBtc(tally.bought),
  }
}

const countBy = <K extends string>(names: readonly K[], rowsOf: (name: K) => readonly unknown[]) =>
  Object.fromEntries(names.map((name) => [name, rowsOf(name).length])) as Record<K, number>

const sum = <T extends bigint>(amounts: readonly T[]): T => amounts.reduce<bigint>((a, b) => a + b, 0n) as T

const totalsOf = (windows: readonly ReadWindow[]): [spent: Usd, bought: Btc] => [
  sum(windows.map(({ window }) => window.spent)),
  sum(windows.map(({ bought }) => bought)),
]

// The windows read back from the store: each with its tranches, its trades and the money left.

type ReadWindow = {
  plan: ListedPlan
  window: Window
  tranches: (Execution & { trade: Trade | null })[]
  bought: Btc
  leftBecause: string | null
  /** It was open from its start to its end. */
  ranItsCourse: boolean
}

/** The whole database is the demonstration's. */
const ALL = { slug: null, environment: null, status: null, stuck: false }

async function readWindows(store: Store): Promise<ReadWindow[]> {
  const tranches: ReadWindow['tranches'] = []
  const read = (page: Parameters<Store['listExecutions']>[1]) => store.listExecutions(ALL, page)
  for await (const page of pagesOf({ read, cursor: (row) => row.executionId }))
    for (const row of page)
      tranches.push({ ...row, trade: (await store.findExecution(row.executionId))?.trade ?? null })
  const byWindow = Map.groupBy(tranches, ({ windowId }) => windowId)
  const [partner] = await store.listPartners()
  const windows: ReadWindow[] = []
  for (const plan of await store.listPlans(ALL, { after: null, limit: ROWS_MAX })) {
    const [found] = await store.findPlans(plan.partnerPlanId)
    for (const window of found?.windows ?? []) {
      const inWindow = byWindow.get(window.windowId) ?? []
      const coins = inWindow.flatMap(({ trade }) =>
        trade && 'btcAmount' in trade.report ? [trade.report.btcAmount] : [],
      )
      windows.push({
        plan,
        window,
        tranches: inWindow,
        bought: sum(coins),
        leftBecause: leftBecauseOf(plan, window, partner?.minTranche ?? ZERO_USD),
        ranItsCourse: window.closed
          ? window.closed.reason === 'ended'
          : plan.status === 'active' && window.end <= END,
      })
    }
  }
  return windows
}

function leftBecauseOf(plan: ListedPlan, window: Window, minTranche: Usd): string | null {
  if (leftOf(window) === ZERO_USD) return null
  if (window.closed?.reason === 'cancelled') return 'the plan was cancelled'
  if (!window.closed && plan.status === 'paused') return 'its user was disabled'
  const floor = leastInstruction(minTranche, window.budget)
  if (leftOf(window) >= floor) return 'came back too late to be tried again'
  return `under the smallest tranche of ${formatUsd(floor)}`
}

// The prices paid, compared with the time-weighted mean of the same windows. Statistics in floats: no amount is derived
// from them.

/** One line for each frequency that has a window to show. */
function comparePrices(all: readonly ReadWindow[], path: Story['path']) {
  return FREQUENCIES.flatMap((frequency) => {
    // Windows that ran their course; one that was cut short has no complete mean to compare with.
    const windows = all.filter(
      ({ plan, ranItsCourse, bought }) => plan.frequency === frequency && ranItsCourse && bought > 0n,
    )
    const [spent, bought] = totalsOf(windows)
    const average = averagePrice(spent, bought)
    if (average === null) return []
    // The number of coins that the dollars of each window buy when spread evenly over it.
    const coinsOf = ({ window }: ReadWindow) => Number(window.spent) / timeWeightedMean(window, path)
    // 10,000 (1 - paid / mean): above zero is cheaper.
    const savings = windows.map((read) => 10_000 * (1 - coinsOf(read) / Number(read.bought)))
    const even = Number(spent) / windows.reduce((total, read) => total + coinsOf(read), 0)
    return {
      frequency,
      windows: windows.length,
      average_price_usd: formatPrice(average),
      even_price_usd: formatPrice((BigInt(Math.round(even * 100)) * CENT) as Price),
      mean_bp: toTenth(savings.reduce((a, b) => a + b, 0) / savings.length),
      worst_bp: toTenth(Math.min(...savings)),
    }
  })
}

/** The harmonic mean of the window's prices: what dollars cost when they are spread evenly over it. */
function timeWeightedMean({ start, end }: Window, path: readonly Price[]): number {
  const prices = path.slice((start - START) / PATH_STEP_MS, (end - START) / PATH_STEP_MS)
  return prices.length / prices.reduce((total, price) => total + 1 / priceAsNumber(price), 0)
}

// Adding zero turns a rounded -0 into 0.
const toTenth = (value: number): number => Math.round(value * 10) / 10 + 0
