// Plays the demonstration: weeks of scheduler passes against the real service, a partner at the other end of HTTP, and
// the records in the store afterwards.

import type { Trade } from '../../core/confirmation.ts'
import { type Execution, RECORDED } from '../../core/execution.ts'
import {
  type Btc,
  formatPrice,
  formatUsd,
  type Price,
  priceAsNumber,
  type Usd,
  ZERO_USD,
} from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import { assert } from '../../core/problem.ts'
import { formatInstant, type Instant, plus } from '../../core/time.ts'
import { leastInstruction, leftOf, type Window } from '../../core/window.ts'
import { runPass } from '../../engine/pass.ts'
import { createApp } from '../../http/app.ts'
import { listenOn } from '../../http/listen.ts'
import { issueKey } from '../../keys.ts'
import { silentLog } from '../../log.ts'
import { type Machine, machineAt } from '../../machine.ts'
import type { ListedPlan, Store } from '../../store/store.ts'
import { createGuard } from '../../webhook/address-guard.ts'
import { tenantNamed } from '../command.ts'
import { databaseOf } from '../context.ts'
import {
  createChance,
  createPartner,
  type Instruction,
  type Partner,
  syntheticPath,
  type Tally,
} from './simulated-partner.ts'
import {
  CANCELLED,
  DISABLED,
  DRAWN,
  FEED_DOWN,
  isWithin,
  LENGTH_MS,
  MANNERS,
  OUTAGE,
  PASS_EVERY_MS,
  PATH_STEP_MS,
  PLANS,
  POLL_AFTER_MS,
  START,
  TAIL_MS,
  USERS,
} from './storyline.ts'

const PARTNER = { partnerSlug: 'demo', name: 'Demo partner' }

export type DemoOptions = {
  file: string
  seed: number
  /** Called with the share of the simulated time that has passed, from 0 to 1. */
  onProgress: (share: number) => void
  /** Ends the run between two passes; everything it started is stopped before it throws. */
  signal: AbortSignal
}

export type Story = {
  seed: number
  from: Instant
  to: Instant
  /** One price a minute from `from` on; a little longer than the windows, for what is settled after them. */
  path: readonly Price[]
  passes: number
  passesMissed: number
  passesWithoutPrice: number
  tally: Readonly<Tally>
}

type Stage = {
  store: Store
  machine: Machine
  setClock: (now: Instant) => void
  partner: Partner
  tenant: Tenant
  path: readonly Price[]
}

/** Runs the demonstration and passes its story and its store to `tell`, while both still exist. */
export async function runDemo<T>(
  { file, seed, onProgress, signal }: DemoOptions,
  tell: (story: Story, store: Store) => Promise<T>,
): Promise<T> {
  const { machine, setClock } = machineAt(START)
  const database = await databaseOf(file, machine)
  const store = await database.open({ create: true })
  try {
    const { tenant, key } = await addPartner(store, machine)
    const app = createApp({
      store,
      machine,
      guard: createGuard({ allow: [] }),
      deliver: async () => ({ statusCode: null, reason: 'a demonstration sends nothing', durationMs: 0 }),
      log: silentLog,
      rateLimit: null,
    })
    const listener = await listenOn(app, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
    try {
      const path = syntheticPath(seed, (LENGTH_MS + TAIL_MS) / PATH_STEP_MS)
      const quote = () => priceAt(path, machine.clock())
      const chance = createChance(seed, 'partner')
      const partner = createPartner({ url: listener.url, key, quote, chance, manners: MANNERS })
      const stage = { store, machine, setClock, partner, tenant, path }
      await enrol(partner)
      const passes = await playWeeks(stage, onProgress, signal)
      await settleRest(stage)
      return await tell(
        { seed, from: START, to: plus(START, LENGTH_MS), path, ...passes, tally: partner.tally },
        store,
      )
    } finally {
      await listener.close()
    }
  } finally {
    await store.close()
  }
}

async function addPartner(store: Store, machine: Machine): Promise<{ tenant: Tenant; key: string }> {
  const audit = { osUser: machine.osUser(), action: 'demo', subject: PARTNER.partnerSlug, detail: {} }
  await store.addPartner(PARTNER, audit)
  const tenant = await tenantNamed(store, PARTNER.partnerSlug, 'test')
  const { record, secret } = issueKey({ tenant, label: 'demo', lifetimeMs: null }, machine)
  await store.addKey(record, audit)
  return { tenant, key: secret }
}

async function enrol(partner: Partner): Promise<void> {
  for (const user of USERS) {
    await partner.call('POST', '/users', {
      partner_user_id: user,
      consent_accepted: true,
      consent_version: 'demo-1',
      consent_timestamp: '2026-01-04T12:00:00Z',
    })
  }
  for (const { plan } of PLANS) await partner.call('POST', '/plans', planBody(plan))
}

function planBody(name: string): Record<string, string> {
  const scripted = PLANS.find(({ plan }) => plan === name)
  if (!scripted) throw new Error(`no plan ${name} in the script`)
  const { plan, user, amountUsd, frequency } = scripted
  return { partner_user_id: user, partner_plan_id: plan, amount_usd: amountUsd, frequency }
}

async function playWeeks(stage: Stage, onProgress: (share: number) => void, signal: AbortSignal) {
  const { store, machine, setClock, partner, path } = stage
  const counts = { passes: 0, passesMissed: 0, passesWithoutPrice: 0 }
  let userDisabled = false
  let planCancelled = false
  for (let elapsed = 0; elapsed < LENGTH_MS; elapsed += PASS_EVERY_MS) {
    signal.throwIfAborted()
    onProgress(elapsed / LENGTH_MS)
    const at = plus(START, elapsed)
    setClock(at)
    if (isWithin(OUTAGE, at)) counts.passesMissed += 1
    else {
      const feedDown = isWithin(FEED_DOWN, at)
      const price = feedDown ? null : { price: priceAt(path, at), source: 'synthetic' }
      const observe = async () => ({ price, testimony: 'none' as const })
      await runPass({ store, machine, observe })
      counts.passes += 1
      if (feedDown) counts.passesWithoutPrice += 1
    }

    setClock(plus(at, POLL_AFTER_MS))
    if (!userDisabled && at >= DISABLED.from && (await hasPending(stage, DISABLED.plan))) {
      await partner.call('PATCH', `/users/${DISABLED.user}`, { status: 'disabled' })
      userDisabled = true
    }
    const due = await partner.poll()
    if (!planCancelled && at >= CANCELLED.from && isAmong(due, CANCELLED.plan)) {
      // Between the poll and the report: the order is on its way when the customer ends the plan.
      await partner.call('POST', '/plans', { ...planBody(CANCELLED.plan), status: 'cancelled' })
      planCancelled = true
    }
    await partner.work(due)
  }
  return counts
}

/** After the last pass, the partner goes on polling until it has confirmed everything that it was given. */
async function settleRest({ setClock, partner }: Stage): Promise<void> {
  for (let elapsed = LENGTH_MS; elapsed < LENGTH_MS + TAIL_MS; elapsed += PASS_EVERY_MS) {
    setClock(plus(START, elapsed))
    const due = await partner.poll()
    if (due.length === 0) return
    await partner.work(due)
  }
}

async function hasPending({ store, tenant }: Stage, plan: string): Promise<boolean> {
  const filter = {
    slug: tenant.partnerSlug,
    environment: tenant.environment,
    status: 'pending' as const,
    stuck: false,
  }
  const pending = await store.listExecutions(filter, { after: null, limit: 100 })
  return pending.some(({ partnerPlanId }) => partnerPlanId === plan)
}

const isAmong = (due: readonly Instruction[], plan: string): boolean =>
  due.some(({ partner_plan_id }) => partner_plan_id === plan)

function priceAt(path: readonly Price[], at: Instant): Price {
  const price = path[Math.floor((at - START) / PATH_STEP_MS)]
  if (price === undefined) throw new Error('the synthetic path is shorter than the story')
  return price
}

// The plans as they are read back from the store: every window with its tranches, its trades and what was left.

type ReadTranche = Execution & { trade: Trade | null }

export type ReadWindow = {
  window: Window
  tranches: ReadTranche[]
  bought: Btc
  left: Usd
  leftBecause: string | null
  /** It was open from its start to its end. */
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

// Timelines: the prices and tranches of a window over time, and which windows are worth drawing.

export type Timeline = ReturnType<typeof timelineOf>
export type TimelineTranche = ReturnType<typeof trancheOf>

/** Columns of a drawing; seven days and four quarters of a day fall on whole or nearly whole ones. */
export const TIMELINE_COLUMNS = 63

/** For each plan to draw, the window in which the most went wrong; the earliest if several are equal. */
export function chooseTimelines(plans: readonly ReadPlan[], story: Story): Timeline[] {
  return DRAWN.flatMap((name) => {
    const found = plans.find(({ plan }) => plan.partnerPlanId === name)
    const windows = found?.windows.filter(({ ranItsCourse }) => ranItsCourse) ?? []
    const [chosen] = windows.toSorted((a, b) => liveliness(b) - liveliness(a))
    return found && chosen ? [timelineOf(found, chosen, story)] : []
  })
}

/** How much a window has to show: each reason to fire, and each outcome other than a fill. */
function liveliness({ tranches }: ReadWindow): number {
  const triggers = new Set(tranches.map(({ firing }) => firing.trigger)).size
  return triggers + tranches.filter(({ status }) => status !== 'filled').length
}

function timelineOf({ plan }: ReadPlan, { window, tranches }: ReadWindow, story: Story) {
  const { start, end } = window
  return {
    partner_plan_id: plan.partnerPlanId,
    frequency: plan.frequency,
    window_start: formatInstant(start),
    window_end: formatInstant(end),
    budget_usd: formatUsd(window.budget),
    spent_usd: formatUsd(window.spent),
    // Evenly spaced over the window, each the mean of its share of the time.
    prices_usd: pricesBetween(start, end, story),
    tranches: tranches.map((tranche) => trancheOf(tranche, (tranche.createdAt - start) / (end - start))),
  }
}

function trancheOf({ createdAt, amount, firing, status, trade }: ReadTranche, position: number) {
  const { trigger } = firing
  assert(trigger !== RECORDED, 'the demonstration books no purchase by hand')
  return {
    at: formatInstant(createdAt),
    // Where in the window, from 0 to 1.
    position: Math.round(position * 10_000) / 10_000,
    trigger,
    amount_usd: formatUsd(amount),
    price_usd: firing.price === null ? null : formatPrice(firing.price),
    reservation_price_usd: firing.reservationPrice === null ? null : formatPrice(firing.reservationPrice),
    status,
    spent_usd: trade && 'usdAmount' in trade.report ? formatUsd(trade.report.usdAmount) : '0.00',
  }
}

function pricesBetween(start: Instant, end: Instant, { path, from }: Story): number[] {
  const index = (column: number): number =>
    Math.round((start - from + ((end - start) * column) / TIMELINE_COLUMNS) / PATH_STEP_MS)
  return Array.from({ length: TIMELINE_COLUMNS }, (_, column) => {
    const share = path.slice(index(column), index(column + 1)).map(priceAsNumber)
    return Math.round((100 * share.reduce((sum, price) => sum + price, 0)) / share.length) / 100
  })
}

// Why a window of the demonstration ended with money left.

type Shortfall = { plan: ListedPlan; window: Window; left: Usd; minTranche: Usd }

function leftBecauseOf({ plan, window, left, minTranche }: Shortfall): string {
  if (window.closed?.reason === 'cancelled') return 'the plan was cancelled'
  if (!window.closed && plan.status === 'paused') return 'its user was disabled'
  const floor = leastInstruction(minTranche, window.budget)
  return left < floor
    ? `under the smallest tranche of ${formatUsd(floor)}`
    : 'came back too late to be tried again'
}
