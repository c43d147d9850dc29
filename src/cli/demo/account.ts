// The account of a demonstration, read back from the ledger or computed from it. Its members are what `demo --json`
// prints; show.ts puts them into words.

import type { Trade } from '../../core/confirmation.ts'
import { EXECUTION_STATUSES, type Execution, RECORDED, TRIGGERS } from '../../core/execution.ts'
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
import { assert } from '../../core/problem.ts'
import { formatInstant } from '../../core/time.ts'
import { FREQUENCIES, leastInstruction, leftOf, type Window } from '../../core/window.ts'
import type { Fault } from '../../store/monitoring.ts'
import type { ListedPlan, Store } from '../../store/store.ts'
import { pagesOf } from '../terminal.ts'
import type { Story } from './play.ts'
import { DRAWN, END, PATH_STEP_MS, START } from './storyline.ts'

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
    plans: [...Map.groupBy(windows, ({ plan }) => plan)].map(([plan, own]) => planAccount(plan, own, story)),
    // Why tranches fired, and their outcomes.
    tranches: {
      by_trigger: countBy(TRIGGERS, tranches, ({ firing }) => firing.trigger),
      by_status: countBy(EXECUTION_STATUSES, tranches, ({ status }) => status),
    },
    timelines: chooseTimelines(windows, story),
    partner: {
      ...counts,
      late_fills_kept: lateFills.length,
      cancelled_by_service: tranches.filter(({ cancelledAt }) => cancelledAt !== null).length,
    },
    prices: comparePrices(windows, story),
    ledger: ledgerAccount(await store.findFaults(), windows, story),
  }
}

const planAccount = (plan: ListedPlan, windows: readonly ReadWindow[], story: Story) => ({
  partner_plan_id: plan.partnerPlanId,
  partner_user_id: plan.partnerUserId,
  frequency: plan.frequency,
  amount_usd: formatUsd(plan.amount),
  status: plan.status,
  windows: windows.map((read) => ({
    window_start: formatInstant(read.window.start),
    window_end: formatInstant(read.window.end),
    budget_usd: formatUsd(read.window.budget),
    spent_usd: formatUsd(read.window.spent),
    // Neither spent nor reserved any more: released, or about to be when the window rolls.
    left_usd: formatUsd(leftOf(read.window)),
    tranches: read.tranches.length,
    // Why money is left; null when the budget is spent to the last unit.
    left_because: read.leftBecause,
    price: read.ranItsCourse && read.bought > 0n ? windowPrice(read, story) : null,
  })),
})

function ledgerAccount(faults: Fault[], windows: readonly ReadWindow[], { tally }: Story) {
  const reserved = sum(windows.map(({ window }) => window.reserved))
  const spent = spentIn(windows)
  const bought = boughtIn(windows)
  const tranches = windows.flatMap((window) => window.tranches)
  const average = averagePrice(spent, bought)
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
    average_price_usd: average && formatPrice(average),
    partner_book_usd: formatUsd(tally.spent),
    partner_book_btc: formatBtc(tally.bought),
  }
}

/** How often each name occurs, in the order of the names. */
const countBy = <K extends string>(
  names: readonly K[],
  rows: readonly ReadTranche[],
  of: (row: ReadTranche) => string,
) =>
  Object.fromEntries(names.map((name) => [name, rows.filter((row) => of(row) === name).length])) as Record<
    K,
    number
  >

const sum = <T extends bigint>(amounts: readonly T[]): T => amounts.reduce<bigint>((a, b) => a + b, 0n) as T
const spentIn = (windows: readonly ReadWindow[]): Usd => sum(windows.map(({ window }) => window.spent))
const boughtIn = (windows: readonly Pick<ReadWindow, 'bought'>[]): Btc =>
  sum(windows.map(({ bought }) => bought))

// The windows as they are read back from the store: each with its tranches, its trades and what was left.

type ReadTranche = Execution & { trade: Trade | null }

type ReadWindow = {
  plan: ListedPlan
  window: Window
  tranches: ReadTranche[]
  bought: Btc
  leftBecause: string | null
  /** It was open from its start to its end. */
  ranItsCourse: boolean
}

/** The whole database is the demonstration's. */
const ALL = { slug: null, environment: null, status: null, stuck: false }

/** Plan by plan. */
async function readWindows(store: Store): Promise<ReadWindow[]> {
  const tranches: ReadTranche[] = []
  const read = (page: Parameters<Store['listExecutions']>[1]) => store.listExecutions(ALL, page)
  for await (const page of pagesOf({ read, cursor: (row) => row.executionId }))
    for (const row of page)
      tranches.push({ ...row, trade: (await store.findExecution(row.executionId))?.trade ?? null })
  const ofWindow = Map.groupBy(tranches, ({ windowId }) => windowId)
  const [partner] = await store.listPartners()
  const windows: ReadWindow[] = []
  for (const plan of await store.listPlans(ALL, { after: null, limit: ROWS_MAX })) {
    const [found] = await store.findPlans(plan.partnerPlanId)
    for (const window of found?.windows ?? []) {
      const own = ofWindow.get(window.windowId) ?? []
      windows.push({
        plan,
        window,
        tranches: own,
        bought: sum(
          own.map(({ trade }) =>
            trade && 'btcAmount' in trade.report ? trade.report.btcAmount : (0n as Btc),
          ),
        ),
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

// What was paid, compared with the time-weighted mean of the same windows. Statistics in floats: no amount is derived
// from them.

function windowPrice(read: ReadWindow, story: Story) {
  const average = averagePrice(read.window.spent, read.bought)
  assert(average !== null, 'a window that bought has an average price')
  return {
    average_price_usd: formatPrice(average),
    // The harmonic mean of the window's prices: what the same dollars cost when spread evenly over the window.
    time_weighted_mean_usd: formatPrice(priceOf(timeWeightedMean(read, story))),
    // 10,000 (1 - average / mean): above zero is cheaper.
    saving_bp: toTenth(savingBp(read, story)),
  }
}

/** One line for each frequency that has a window to show. */
function comparePrices(all: readonly ReadWindow[], story: Story) {
  return FREQUENCIES.flatMap((frequency) => {
    const windows = all.filter(
      ({ plan, ranItsCourse, bought }) => plan.frequency === frequency && ranItsCourse && bought > 0n,
    )
    const average = averagePrice(spentIn(windows), boughtIn(windows))
    if (average === null) return []
    const savings = windows.map((window) => savingBp(window, story))
    const evenly = windows.reduce(
      (total, read) => total + Number(read.window.spent) / timeWeightedMean(read, story),
      0,
    )
    return {
      frequency,
      // Those that ended in their own time; one that was cut short has no complete mean to compare with.
      windows: windows.length,
      average_price_usd: formatPrice(average),
      // What the same dollars of the same windows cost on average when each window's are spread evenly over it.
      even_price_usd: formatPrice(priceOf(Number(spentIn(windows)) / evenly)),
      mean_bp: toTenth(meanOf(savings)),
      worst_bp: toTenth(Math.min(...savings)),
    }
  })
}

const savingBp = (read: ReadWindow, story: Story): number =>
  10_000 * (1 - Number(read.window.spent) / Number(read.bought) / timeWeightedMean(read, story))

function timeWeightedMean({ window }: ReadWindow, { path }: Story): number {
  const prices = path.slice((window.start - START) / PATH_STEP_MS, (window.end - START) / PATH_STEP_MS)
  return prices.length / prices.reduce((total, price) => total + 1 / priceAsNumber(price), 0)
}

const priceOf = (value: number): Price => (BigInt(Math.round(value * 100)) * CENT) as Price

// Adding zero turns a rounded -0 into 0.
const toTenth = (value: number): number => Math.round(value * 10) / 10 + 0

const meanOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

// Timelines: the prices and tranches of a window over time, and which windows are worth drawing.

export type Timeline = Account['timelines'][number]

/** Columns of a drawing; seven days and four quarters of a day fall on whole or nearly whole ones. */
export const TIMELINE_COLUMNS = 63

/** For each plan to draw, the window in which the most went wrong; the earliest if several are equal. */
const chooseTimelines = (windows: readonly ReadWindow[], story: Story) =>
  DRAWN.flatMap((name) => {
    const [chosen] = windows
      .filter(({ plan, ranItsCourse }) => plan.partnerPlanId === name && ranItsCourse)
      .toSorted((a, b) => liveliness(b) - liveliness(a))
    return chosen ? [timelineOf(chosen, story)] : []
  })

/** How much a window has to show: each reason to fire, and each outcome other than a fill. */
function liveliness({ tranches }: ReadWindow): number {
  const triggers = new Set(tranches.map(({ firing }) => firing.trigger)).size
  return triggers + tranches.filter(({ status }) => status !== 'filled').length
}

const timelineOf = ({ plan, window, tranches }: ReadWindow, story: Story) => ({
  partner_plan_id: plan.partnerPlanId,
  frequency: plan.frequency,
  window_start: formatInstant(window.start),
  window_end: formatInstant(window.end),
  budget_usd: formatUsd(window.budget),
  spent_usd: formatUsd(window.spent),
  // Evenly spaced over the window, each the mean of its share of the time.
  prices_usd: pricesIn(window, story),
  tranches: tranches.map((tranche) => trancheOf(tranche, window)),
})

function trancheOf({ createdAt, amount, firing, status, trade }: ReadTranche, { start, end }: Window) {
  const { trigger, price, reservationPrice } = firing
  assert(trigger !== RECORDED, 'the demonstration books no purchase by hand')
  return {
    at: formatInstant(createdAt),
    // Where in the window, from 0 to 1.
    position: Math.round(((createdAt - start) / (end - start)) * 10_000) / 10_000,
    trigger,
    amount_usd: formatUsd(amount),
    price_usd: price && formatPrice(price),
    reservation_price_usd: reservationPrice && formatPrice(reservationPrice),
    status,
    spent_usd: trade && 'usdAmount' in trade.report ? formatUsd(trade.report.usdAmount) : '0.00',
  }
}

function pricesIn({ start, end }: Window, { path }: Story): number[] {
  const index = (column: number): number =>
    Math.round((start - START + ((end - start) * column) / TIMELINE_COLUMNS) / PATH_STEP_MS)
  return Array.from({ length: TIMELINE_COLUMNS }, (_, column) => {
    const share = path.slice(index(column), index(column + 1))
    return Math.round(100 * meanOf(share.map(priceAsNumber))) / 100
  })
}
