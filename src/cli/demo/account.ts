// The account of a demonstration, read back from the ledger or computed from it. Its members are what `demo --json`
// prints; show.ts puts them into words.

import { EXECUTION_STATUSES, TRIGGERS } from '../../core/execution.ts'
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
import { FREQUENCIES, type Frequency } from '../../core/window.ts'
import type { Fault } from '../../store/monitoring.ts'
import type { Store } from '../../store/store.ts'
import { chooseTimelines, type ReadPlan, type ReadWindow, readPlans, type Story } from './play.ts'
import { PATH_STEP_MS } from './storyline.ts'

export type Account = Awaited<ReturnType<typeof readAccount>>
export type PlanAccount = Account['plans'][number]
export type WindowAccount = PlanAccount['windows'][number]
export type PriceComparison = Account['prices'][number]

const LATE_FILLS_MAX = 1_000

/** Reads the whole account while the store is still open. */
export async function readAccount(story: Story, store: Store) {
  const plans = await readPlans(story, store)
  const windows = plans.flatMap((plan) => plan.windows)
  const tranches = windows.flatMap((window) => window.tranches)
  const { tally } = story
  const lateFills = await store.listLateFills({ after: null, limit: LATE_FILLS_MAX })
  return {
    synthetic: true as const,
    seed: story.seed,
    from: formatInstant(story.from),
    to: formatInstant(story.to),
    scheduler: {
      passes: story.passes,
      passes_missed: story.passesMissed,
      passes_without_price: story.passesWithoutPrice,
    },
    plans: plans.map((plan) => planAccount(plan, story)),
    // Why tranches fired, and their outcomes.
    tranches: {
      by_trigger: countBy(
        TRIGGERS,
        tranches.map(({ firing }) => firing.trigger),
      ),
      by_status: countBy(
        EXECUTION_STATUSES,
        tranches.map(({ status }) => status),
      ),
    },
    timelines: chooseTimelines(plans, story),
    partner: {
      polls: tally.polls,
      delivered: tally.delivered,
      redelivered: tally.redelivered,
      filled: tally.filled,
      partial: tally.partial,
      failed: tally.failed,
      silent: tally.silent,
      replayed: tally.replayed,
      refused_late: tally.refusedLate,
      late_fills_kept: lateFills.length,
      cancelled_by_service: tranches.filter(({ cancelledAt }) => cancelledAt !== null).length,
    },
    prices: comparePrices(plans, story),
    ledger: ledgerAccount(await store.findFaults(), windows, story),
  }
}

function planAccount({ plan, windows }: ReadPlan, story: Story) {
  return {
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
      left_usd: formatUsd(read.left),
      tranches: read.tranches.length,
      // Why money is left; null when the budget is spent to the last unit.
      left_because: read.leftBecause,
      price: windowPrice(read, story),
    })),
  }
}

function ledgerAccount(faults: Fault[], windows: readonly ReadWindow[], { tally }: Story) {
  const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n)
  const reserved = sum(windows.map(({ window }) => window.reserved)) as Usd
  const spent = sum(windows.map(({ window }) => window.spent)) as Usd
  const bought = sum(windows.map((window) => window.bought)) as Btc
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
const countBy = <K extends string>(names: readonly K[], of: readonly K[]): Record<K, number> =>
  Object.fromEntries(names.map((name) => [name, of.filter((other) => other === name).length])) as Record<
    K,
    number
  >

// What was paid, compared with the time-weighted mean of the same windows. Statistics in floats: no amount is derived
// from them.

function windowPrice(read: ReadWindow, story: Story) {
  const average = averagePrice(read.window.spent, read.bought)
  if (!read.ranItsCourse || average === null) return null
  return {
    average_price_usd: formatPrice(average),
    // The harmonic mean of the window's prices: what the same dollars cost when spread evenly over the window.
    time_weighted_mean_usd: formatPrice(priceOf(timeWeightedMean(read, story))),
    // 10,000 (1 - average / mean): above zero is cheaper.
    saving_bp: toTenth(savingBp(read, story)),
  }
}

/** One line for each frequency that has a window to show. */
function comparePrices(plans: readonly ReadPlan[], story: Story) {
  return FREQUENCIES.flatMap((frequency) => {
    const windows = plans
      .filter(({ plan }) => plan.frequency === frequency)
      .flatMap((plan) => plan.windows)
      .filter(({ ranItsCourse, bought }) => ranItsCourse && bought > 0n)
    return windows.length === 0 ? [] : [compare(frequency, windows, story)]
  })
}

function compare(frequency: Frequency, windows: readonly ReadWindow[], story: Story) {
  const savings = windows.map((window) => savingBp(window, story))
  const spent = windows.reduce((sum, { window }) => sum + window.spent, 0n) as Usd
  const bought = windows.reduce((sum, window) => sum + window.bought, 0n) as Btc
  const average = averagePrice(spent, bought)
  assert(average !== null, 'windows that bought have an average price')
  const evenly = windows.reduce(
    (sum, read) => sum + Number(read.window.spent) / timeWeightedMean(read, story),
    0,
  )
  return {
    frequency,
    // Those that ended in their own time; one that was cut short has no complete mean to compare with.
    windows: windows.length,
    average_price_usd: formatPrice(average),
    // What the same dollars of the same windows cost on average when each window's are spread evenly over it.
    even_price_usd: formatPrice(priceOf(Number(spent) / evenly)),
    mean_bp: toTenth(savings.reduce((sum, saving) => sum + saving, 0) / savings.length),
    worst_bp: toTenth(Math.min(...savings)),
  }
}

function savingBp(read: ReadWindow, story: Story): number {
  const average = Number(read.window.spent) / Number(read.bought)
  return 10_000 * (1 - average / timeWeightedMean(read, story))
}

function timeWeightedMean({ window }: ReadWindow, { path, from }: Story): number {
  const prices = path.slice((window.start - from) / PATH_STEP_MS, (window.end - from) / PATH_STEP_MS)
  return prices.length / prices.reduce((sum, price) => sum + 1 / priceAsNumber(price), 0)
}

const priceOf = (value: number): Price => (BigInt(Math.round(value * 100)) * CENT) as Price

// Adding zero turns a rounded -0 into 0.
const toTenth = (value: number): number => Math.round(value * 10) / 10 + 0
