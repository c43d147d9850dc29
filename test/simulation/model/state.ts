// The model's memory of the world: plain values, so that a state can be copied as a whole.

// The model's own arithmetic and its own texts of amounts and instants: it shares nothing with the program.

export const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

/** Units of an amount: whole numbers of 1e-8. */
export const UNIT = 100_000_000n
export const CENT = 1_000_000n

/** A decimal text as units of 1e-8; further places are rounded half to even. */
export function units(text: string): bigint {
  const [whole = '', fraction = ''] = text.replace('-', '').split('.')
  const digits = BigInt(whole + fraction.padEnd(8, '0').slice(0, 8))
  const rest = fraction.slice(8).replace(/0+$/, '')
  const up = rest > '5' || (rest === '5' && digits % 2n === 1n)
  const size = up ? digits + 1n : digits
  return text.startsWith('-') ? -size : size
}

/** An amount as text, with at least so many places and no more than necessary. */
export function decimal(amount: bigint, places: number): string {
  const size = amount < 0n ? -amount : amount
  const text = (size + 10n ** 20n).toString().slice(-8).replace(/0+$/, '').padEnd(places, '0')
  return `${amount < 0n ? '-' : ''}${size / UNIT}.${text}`
}

export const dollars = (amount: bigint): string => decimal(amount, 2)
export const coins = (amount: bigint): string => decimal(amount, 8)

export const toCents = (amount: bigint): bigint => amount - (amount % CENT)

export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)

/** A quotient of numbers that are not negative, rounded half to even. */
export function halfEven(numerator: bigint, denominator: bigint): bigint {
  const whole = numerator / denominator
  const twice = 2n * (numerator - whole * denominator)
  if (twice < denominator || (twice === denominator && whole % 2n === 0n)) return whole
  return whole + 1n
}

export const iso = (at: number): string =>
  Temporal.Instant.fromEpochMilliseconds(at).toString({ fractionalSecondDigits: 3 })
export const isoOrNull = (at: number | null): string | null => (at === null ? null : iso(at))

export const monthOf = (at: number): string => iso(at).slice(0, 7)

/** A month, half-open: from its first instant to the first of the next one. */
export function monthBounds(month: string): { start: number; end: number } {
  const [year = 0, number = 1] = month.split('-').map(Number)
  return { start: Date.UTC(year, number - 1), end: Date.UTC(year, number) }
}

export type Frequency = 'daily' | 'weekly' | 'bi-weekly'
export const WINDOW_LENGTH: Record<Frequency, number> = { daily: DAY, weekly: 7 * DAY, 'bi-weekly': 14 * DAY }

export type Partner = {
  slug: string
  status: 'active' | 'disabled'
  held: boolean
  minTranche: bigint
  createdAt: number
}

export type Key = {
  label: string
  tenant: Tenant
  createdAt: number
  expiresAt: number | null
  revokedAt: number | null
  /** Issued by a process that died before it could print the secret: nobody has it. */
  isLost: boolean
}

type Webhook = {
  url: string
  /** Counts registrations: the secret is new with each. */
  registration: number
  status: 'active' | 'paused'
  createdAt: number
  updatedAt: number
  lastDeliveredAt: number | null
  lastStatusCode: number | null
  failures: number
  lastFailure: { at: number; reason: string } | null
}

/** A delivery to a webhook: a wake-up, with the key of its earliest execution, or a test. */
export type Delivery = {
  endedAt: number
  count: number
  earliest: string | null
  statusCode: number | null
  failure: string | null
}

export type Tenant = {
  name: string
  partner: Partner
  environment: 'test' | 'live'
  users: Map<string, User>
  plans: Map<string, Plan>
  executions: Execution[]
  webhook: Webhook | null
  /** In the order in which they ended. */
  deliveries: Delivery[]
  /** The beginnings of windows that had executions before a reset, by the id of their plan. */
  past: Map<string, number[]>
  /** Since its first reset a test environment has its own time, which others' records do not move. */
  apart: { reportedUntil: number } | null
}

export type User = {
  id: string
  email: string | null
  provider: string | null
  consentVersion: string
  consentAt: number
  status: 'linked' | 'disabled'
  /** Every stated consent, and its first time. */
  consents: Map<string, number>
  createdAt: number
  updatedAt: number
  /** The time of its last erasure. */
  erasedAt: number | null
}

export type Plan = {
  tenant: Tenant
  user: User
  id: string
  amount: bigint
  frequency: Frequency
  smart: boolean
  startDate: number
  status: 'active' | 'paused' | 'cancelled'
  createdAt: number
  updatedAt: number
  windows: Window[]
  executions: Execution[]
  timing: Timing | null
}

export type Window = {
  start: number
  end: number
  budget: bigint
  reserved: bigint
  spent: bigint
  excess: bigint
  released: bigint
  closed: { at: number; reason: 'ended' | 'reset' | 'cancelled' } | null
}

/** The progress of the current window in its schedule. */
export type Timing = {
  window: Window
  floor: bigint
  index: number
  cut: { slots: number; perSlot: number; fired: number } | null
  slot: number
  reference: { price: bigint; halfWidth: number } | null
  nextRun: number
  limit: number | null
  clock: number | null
  extras: number
  nextExtra: number
}

export type Report = {
  order: string
  status: 'filled' | 'partial' | 'failed' | 'cancelled'
  executedAt: number | null
  usd: bigint
  btc: bigint
  price: bigint
  fee: bigint | null
  reason: string | null
}

export type Late = {
  number: number
  report: Report
  reason: string
  receivedAt: number
  accepted: boolean
  decided: boolean
}

export type Adjustment = {
  number: number
  usd: bigint
  btc: bigint
  recordedAt: number
  reason: string
  lateNumber: number | null
  order: string | null
  /** From the report of its origin; null for an operator's own figures. */
  price: bigint | null
  fee: bigint | null
  executedAt: number | null
}

export type Execution = {
  /** Its id, which only the program knows until it has reported it. */
  id: string
  tenant: Tenant
  plan: Plan
  window: Window
  index: number
  /** The part of its idempotency key besides the plan's id. */
  windowStart: number
  amount: bigint
  trigger: string
  createdAt: number
  status: 'pending' | 'sent' | 'filled' | 'partial' | 'failed' | 'cancelled'
  deliveries: number
  leasedUntil: number | null
  cancelledAt: number | null
  /** `executedAt` is null where nothing was bought and no time was sent. */
  trade: { report: Report; executedAt: number | null; recordedAt: number } | null
  adjustments: Adjustment[]
  late: Late[]
  uncounted: number
}

/** An execution that nobody was given or has reported, without an id. */
export function untouched() {
  const undelivered = { deliveries: 0, leasedUntil: null, cancelledAt: null }
  return { id: '', ...undelivered, trade: null, adjustments: [], late: [], uncounted: 0 }
}

export type Tier = {
  name: string
  from: string
  place: number
  /** Null for a tier that no volume reaches: it is for overrides. */
  minVolume: bigint | null
  bps: number
  perUser: bigint
  minimum: bigint
}

/** A partner's account at a venue, for both of its environments: the orders by their ids. */
type Venue = Map<string, Order>

/** A purchase, its owner, and the number of restores of the database before it. */
export type Order = {
  id: string
  tenant: string
  execution: string
  restores: number
  usd: string
  btc: string
  price: string
  fee: string | null
  at: number
}

/** `earliest` is the id of an execution, `key` its idempotency key. */
export type WakeUp = { tenant: Tenant; registration: number; count: number; earliest: string; key: string }

type Dispute = { clockAt: number; toldAt: number }

/** A user's erasure: remembered outside of the database, so that a backup does not bring the address back. */
type Erasure = { tenant: string; user: string; at: number }

/** The parts of a replaced database that a restore reads. */
export type Replaced = Pick<State, 'partners' | 'tenants' | 'keys'>

export type State = {
  clock: number
  /** Restored from a backup or frozen by an operator, and not yet resumed. */
  frozen: boolean
  /** The databases replaced since it was frozen, the latest first. */
  replaced: Replaced[]
  /** No write is dated before it. */
  reportedUntil: number
  partners: Map<string, Partner>
  tenants: Map<string, Tenant>
  keys: Map<string, Key>
  plans: Plan[]
  executions: Execution[]
  tiers: Tier[]
  overrides: { slug: string; from: string; tier: string | null }[]
  /** The last month with a minimum, as set in a month; null removes an end. */
  minimumEnds: { slug: string; from: string; last: string | null }[]
  closedMonths: Set<string>
  passes: { at: number; finished: boolean }[]
  /** When operators changed something. */
  audits: number[]
  prices: Map<number, bigint>
  volatility: { variance: number; hours: number; last: { price: bigint; at: number } | null }
  dispute: Dispute | null
  /** Tenants whose running windows do not have their partner's minimum yet (pass.ts). */
  behind: Set<Tenant>
  /** Counters of the whole database. */
  registrations: number
  lateNumbers: number
  adjustmentNumbers: number
  /** Every issued idempotency key, after its tenant's name: those that a reset deletes included. */
  issued: Set<string>
  /**
   * Facts outside of the database: the venue of each partner, by its slug, the number of restores, and the erasures.
   */
  venues: Map<string, Venue>
  restores: number
  erasures: Erasure[]
  /** The contents of the current backup, as the judge stores it. */
  saved: Uint8Array | null
}

export function emptyState(clock: number): State {
  const tier = (place: number, name: string, volume: bigint, bps: number): Tier => {
    const terms = { minVolume: volume * UNIT, bps, perUser: 0n, minimum: 0n }
    return { name, from: '1970-01', place, ...terms }
  }
  return {
    clock,
    frozen: false,
    replaced: [],
    reportedUntil: 0,
    partners: new Map(),
    tenants: new Map(),
    keys: new Map(),
    plans: [],
    executions: [],
    tiers: [tier(1, 'starter', 0n, 50), tier(2, 'growth', 1_000_000n, 35), tier(3, 'scale', 10_000_000n, 20)],
    overrides: [],
    minimumEnds: [],
    closedMonths: new Set(),
    passes: [],
    audits: [],
    prices: new Map(),
    volatility: { variance: 0.005 ** 2, hours: 0, last: null },
    dispute: null,
    behind: new Set(),
    registrations: 0,
    lateNumbers: 0,
    adjustmentNumbers: 0,
    issued: new Set(),
    venues: new Map(),
    restores: 0,
    erasures: [],
    saved: null,
  }
}

/** The instant of a write now, in the time of a tenant that has its own. */
export const presentOf = (state: State, tenant: Tenant | null = null): number =>
  Math.max(state.clock, state.reportedUntil, tenant?.apart?.reportedUntil ?? 0)

/** The time of the last trade or adjustment, of a tenant with its own time or of all others together. */
export function lastRecordedAt(state: State, tenant: Tenant | null): number {
  let last = 0
  for (const { tenant: owner, trade, adjustments } of state.executions) {
    if (tenant?.apart ? owner !== tenant : owner.apart !== null) continue
    last = Math.max(last, trade?.recordedAt ?? 0, adjustments.at(-1)?.recordedAt ?? 0)
  }
  return last
}

export const isOpen = ({ status }: Execution): boolean => status === 'pending' || status === 'sent'

/** The beginnings of all windows whose keys used a plan's id. */
export const usedBeginnings = (plan: Pick<Plan, 'tenant' | 'id' | 'executions'>): number[] => [
  ...(plan.tenant.past.get(plan.id) ?? []),
  ...plan.executions.map(({ windowStart }) => windowStart),
]

export const currentWindow = (plan: Plan): Window | null =>
  plan.windows.find((window) => window.closed === null) ?? null

export const isAwake = (plan: Plan): boolean =>
  plan.timing !== null &&
  plan.status === 'active' &&
  plan.smart &&
  plan.tenant.partner.status === 'active' &&
  !plan.tenant.partner.held

export const idempotencyKey = ({ plan, windowStart, index }: Execution): string =>
  `${plan.id}:${iso(windowStart)}:${index}`
