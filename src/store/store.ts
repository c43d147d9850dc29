// The interface of the store, noun by noun. Most methods are one transaction; long work is one for each page. A write
// takes a pure decision, calls it with what it has just read, and stores its result. `now` is read inside the
// transaction, so neither a wait for a lock nor another process can make it stale.

import type { Dispute } from '../core/clock.ts'
import type { Confirmation, ExecutionFacts, Fill, LateFill, Report, Trade } from '../core/confirmation.ts'
import type { Adjustment, Correction, TradeFacts } from '../core/corrections/adjustment.ts'
import type { Acceptance, LateFillDecision, LateFillFacts } from '../core/corrections/late-fill.ts'
import type { Booked, Booking, PurchaseFacts } from '../core/corrections/purchase.ts'
import type { Execution, ExecutionId, ExecutionStatus, Tranche } from '../core/execution.ts'
import type { Activity, Tier } from '../core/fees.ts'
import type { JobResult } from '../core/findings.ts'
import type { Frozen } from '../core/frozen.ts'
import type { Issued, Series } from '../core/invoice.ts'
import type { ApiKey, KeyFacts, KeyTerms, KeyTime } from '../core/key.ts'
import type { Btc, Price, Usd } from '../core/money.ts'
import type { FixedPeriod, Period } from '../core/month.ts'
import type { Caller, Environment, Partner, PartnerChange, Tenant } from '../core/partner.ts'
import type { Plan, PlanChange, PlanFacts, PlanState } from '../core/plan.ts'
import type { Volatility } from '../core/price.ts'
import type { Instant } from '../core/time.ts'
import type { User, UserChange } from '../core/user.ts'
import type { Attempt, Delivered, WakeUp, Webhook } from '../core/webhook.ts'
import type { OnGrid, Opening, Schedule, Window } from '../core/window.ts'
import type { CheckStore, MonitoringStore, OpsPageStore, StatusStore } from './monitoring.ts'

export interface Store
  extends PartnerStore,
    KeyStore,
    TierStore,
    InvoiceStore,
    UserStore,
    PlanStore,
    WindowStore,
    ExecutionStore,
    TradeStore,
    PurchaseStore,
    WebhookStore,
    WakeUpStore,
    PassStore,
    ClockStore,
    PriceStore,
    MonthStore,
    SandboxStore,
    AuditStore,
    StatusStore,
    FreezeStore,
    ResultStore,
    CheckStore,
    MonitoringStore,
    OpsPageStore {
  close(): Promise<void>
}

// The audit log of operators' changes. Each change writes its own entry.

/** An operator's change, recorded with it. */
export type AuditEntry = { osUser: string; action: string; subject: string; detail: Record<string, unknown> }
/** `partnerSlug` is the partner it is about; null for none, or an unknown one. */
export type ListedAuditEntry = AuditEntry & { auditId: number; at: Instant; partnerSlug: string | null }

/** Selects entries: from `since` on, before `until`, about one partner. Null selects all. */
export type AuditFilter = { since: Instant | null; until: Instant | null; slug: string | null }

export interface AuditStore {
  /**
   * Entries in the order they were made. An entry is about a partner if it names the partner or one of its keys, users,
   * plans, webhooks or executions. Entries about executions that a sandbox reset removed no longer belong to a partner.
   */
  listAudit(page: PageRequest, filter?: AuditFilter): Promise<ListedAuditEntry[]>
  /** Adds an entry without a change, about an action on the whole database, or through a partner's own call. */
  addAuditEntry(entry: AuditEntry): Promise<void>
}

// Windows that were opened too early, by a clock that was ahead, and their correction.

/** A plan whose current window lies ahead of its place, and the window it should have. */
export type PlanAhead = ListedPlan & { window: Window; place: Opening }

export interface WindowStore {
  /**
   * Plans whose current window starts in the future, and later than their start_date, the grid and the money left
   * require. Sandboxes are left out, because their time moves separately. A page may be shorter than its limit; the
   * cursor is that of the last plan examined, and null at the end.
   */
  listAhead(filter: TenantFilter, page: PageRequest): Promise<{ plans: PlanAhead[]; cursor: number | null }>
  /** Moves such a window back to its place. Null when it is already there. */
  bringBack(planId: number, audit: (plan: PlanAhead, now: Instant) => AuditEntry): Promise<PlanAhead | null>
}

// Whether the clock is in doubt, for every process on the file.

export interface ClockStore {
  /** Stores and returns the decision, which gets the time of a write now and the standing dispute. */
  decideDispute(decide: (now: Instant, standing: Dispute | null) => Dispute | null): Promise<Dispute | null>
  /** The time of a write now, and the standing dispute. */
  readClock(): Promise<{ now: Instant; standing: Dispute | null }>
}

// Executions: delivered to polls, ended by confirmations or by an operator.

export type ListedExecution = Execution & { tenant: Tenant }
/** `since` is the earliest creation, in the time of each tenant. */
export type ExecutionFilter = TenantFilter & {
  status: ExecutionStatus | null
  stuck: boolean
  since?: Instant | undefined
}

/** Where a list of a tenant's executions begins: with an empty id, at `createdAt`; otherwise after that execution. */
export type ExecutionPlace = { createdAt: Instant; executionId: string }
export type ExecutionsPage = { after: ExecutionPlace; limit: number }

/** One execution with everything that belongs to it. */
export type ExecutionRecord = {
  execution: ListedExecution
  window: Window
  trade: Trade | null
  adjustments: Adjustment[]
  /** Its late fills, oldest first. */
  lateFills: LateFill[]
}

/** Where an execution has an order: in its trade, in an adjustment, or in a late fill. */
export type OrderIs = 'trade' | 'further_purchase' | 'late_fill'
export type ExecutionOfOrder = { execution: ListedExecution; orderIs: OrderIs[] }

export interface ExecutionStore {
  /**
   * Delivers due executions, each to exactly one poll: first expired leases, by (end of the lease, execution_id), then
   * executions never delivered, by (created_at, execution_id). `remaining` is how many more are due, counted up to
   * 1,000.
   */
  deliverDue(
    tenant: Caller,
    limit: number,
    deliver: (execution: Execution, now: Instant) => Execution,
  ): Promise<{ executions: Execution[]; remaining: number }>
  /** Stores a confirmation. The report of a `refused` one is kept or counted; the caller then refuses it. */
  confirmExecution(
    tenant: Caller,
    ids: { executionId: string; partnerOrderId: string },
    decide: (facts: ExecutionFacts, now: Instant) => Confirmation,
  ): Promise<Confirmation>
  /** Ends an open execution. Throws execution_not_found, and whatever `decide` throws. */
  cancelExecution(
    executionId: string,
    decide: (current: ExecutionRecord, now: Instant) => { execution: Execution; window: Window },
    audit: AuditEntry,
  ): Promise<void>
  /**
   * A tenant's executions from an instant of creation on, or after one of them, by (created_at, execution_id). Delivers
   * nothing and takes no lease. `now` is when they were read.
   */
  readExecutions(tenant: Caller, page: ExecutionsPage): Promise<{ executions: Execution[]; now: Instant }>
  /** Oldest first; the cursor is the id of an execution. */
  listExecutions(filter: ExecutionFilter, page: PageRequest): Promise<ListedExecution[]>
  /** The cursor after which a listing has the newest `count` of its rows; null when there are no more. */
  cursorOfNewest(filter: ExecutionFilter, count: number): Promise<string | null>
  findExecution(executionId: string): Promise<ExecutionRecord | null>
  /** The executions for which a partner's order id is recorded or reported, oldest first. Found along indexes. */
  findByOrder(filter: TenantFilter, partnerOrderId: string): Promise<ExecutionOfOrder[]>
}

// API keys, known by the hash of their secret.

/** A key to be added: its terms, and the hash of its secret. */
export type NewKey = KeyTerms & { keyId: string; sha256: string; prefix: string; lastFour: string }

export interface KeyStore {
  /** Look-ups of one turn of the event loop are made together in the next. `atOnce` makes one at once, on a file. */
  findKey(sha256: string, how?: { atOnce: boolean }): Promise<KeyFacts | null>
  markKeyUsed(tenant: Tenant, keyId: string): Promise<void>
  addKey(key: NewKey, audit: AuditEntry): Promise<ApiKey>
  /** Changes a key, and adds another in the same transaction when a rotation asks for it. Throws key_not_found. */
  changeKey(
    keyId: string,
    decide: (current: ApiKey, time: KeyTime) => { key: ApiKey; successor: NewKey | null },
    audit: AuditEntry,
  ): Promise<{ key: ApiKey; successor: ApiKey | null }>
  listKeys(slug: string): Promise<ApiKey[]>
}

// Billing's reads of a month: statements and exports, all under one fixed period.

/** The sum of a user's trades and adjustments recorded in a month. `trades` does not count adjustments. */
export type UserLine = { partnerUserId: string; trades: number; volume: Usd; btc: Btc; partnerFees: Usd }

/** The place of a line among the others. `number` is 0 for a trade, else that of the adjustment. */
export type LinePlace = { recordedAt: Instant; executionId: string; number: number }

/** One accepted confirmation or one adjustment, with the partner's names. */
export type TradeLine = LinePlace & {
  tenant: Tenant
  executionId: ExecutionId
  partnerUserId: string
  partnerPlanId: string
  entry:
    | { kind: 'trade'; report: Report; receivedAt: Instant | null }
    | { kind: 'adjustment'; partnerOrderId: string; adjustment: Adjustment }
}

/** An adjustment with the trade it corrects, as the trade was confirmed. */
export type AdjustmentLine = Omit<TradeLine, 'entry' | 'number'> & {
  /** The order of the corrected fill, or of a further purchase. */
  partnerOrderId: string
  adjustment: Adjustment
  original: Trade
}

export interface MonthStore {
  /**
   * Fixes the period of a billing report, by the time of its tenant, or by the real time. A month that is over is fixed
   * whole and for good; the current one, up to now. No write is dated before that bound again, so that everything read
   * under it is one state of the month. A month that is over only by this clock is returned whole, but not as final: a
   * pass or a trade after its end has to confirm it.
   */
  fixPeriod(period: Period, tenant?: Tenant | null): Promise<FixedPeriod>
  /**
   * `fixPeriod` for a call of the tenant, which may be repeated often and must not keep others from writing. If closing
   * a month that is over would have to wait for a write, the month is returned as not final yet.
   */
  fixTenantPeriod(tenant: Caller, period: Period): Promise<FixedPeriod>
  /** A tenant's month and its users, by partner_user_id. */
  readActivity(tenant: Tenant, period: FixedPeriod): Promise<{ activity: Activity; users: UserLine[] }>
  /** By recorded_at, then execution_id, then the trade before its adjustments and those by their number. */
  readTradeLines(
    period: FixedPeriod,
    filter: TenantFilter,
    page: PageRequest<LinePlace>,
  ): Promise<TradeLine[]>
  /** The lines of one tenant, along its own index. */
  readTenantLines(tenant: Tenant, period: FixedPeriod, page: PageRequest<LinePlace>): Promise<TradeLine[]>
  /** The adjustments alone, in the same order. */
  readAdjustmentLines(
    period: FixedPeriod,
    filter: TenantFilter,
    page: PageRequest<AdjustmentLine>,
  ): Promise<AdjustmentLine[]>
  /** The number of trade lines. */
  countTradeLines(period: FixedPeriod, filter: TenantFilter): Promise<number>
}

// Partners, and the two tenants each of them has: one for tests, one for live business.

/** The tenants of a partner, of an environment, or all of them. */
export type TenantFilter = { slug: string | null; environment: Environment | null }

export interface PartnerStore {
  /** Adds a partner with its two tenants, or throws partner_exists. */
  addPartner(partner: Pick<Partner, 'partnerSlug' | 'name'>, audit: AuditEntry): Promise<Partner>
  /** Throws partner_not_found. */
  changePartner(
    slug: string,
    decide: (current: Partner, now: Instant) => PartnerChange,
    audit: AuditEntry,
  ): Promise<Partner>
  findPartner(slug: string): Promise<Partner | null>
  listPartners(): Promise<Partner[]>
  findTenant(slug: string, environment: Environment): Promise<Tenant | null>
  /** Tenants by name; with `before`, those whose partner was created by then: a later one is not part of that month. */
  listTenants(filter: TenantFilter, before: Instant | null): Promise<Tenant[]>
}

// Passes of the scheduler: the due plans, and how a page of them is decided and stored.

export type PassStart = {
  passId: number
  at: Instant
  /** The price observed for this pass, else the newest one stored. */
  price: { price: Price; at: Instant } | null
  volatility: Volatility
  /** Time between the last passes, oldest first, this one included. */
  passGapsMs: number[]
}
export type PassCounts = { plansEvaluated: number; executionsCreated: number; windowsRolled: number }

/** One tranche that a pass fires. */
export type Fired = { tenant: Tenant; executionId: ExecutionId; tranche: Tranche; schedule: Schedule }

export type Preview = Fired & { partnerPlanId: string }

export type DueRanges = { now: Instant; livePrice: Price | null; leadMs: number }

export type PlanDecisions = {
  /** The window that follows one that is over, null while it runs. */
  roll: (window: OnGrid, now: Instant) => Opening | null
  /** `now` is the time of the plan's tenant, `real` that of prices; they differ only in a sandbox. */
  decide: (schedule: Schedule, now: Instant, real: Instant) => { schedule: Schedule; tranche: Tranche | null }
  newExecutionId: (previous: ExecutionId | null, real: Instant) => ExecutionId
}

/** This process's turn to run a pass. It ends with the process, even a killed one. */
export type PassTurn = {
  /** The due plans in pages of at most `pageMax`. Throws storage_failed once the turn was taken away. */
  duePages(due: DueRanges, pageMax: number): AsyncIterable<number[]>
  end(): Promise<void>
}

export interface PassStore {
  /** Null while another process runs a pass. On a server, one that has made no page for ten minutes is ended. */
  takePass(): Promise<PassTurn | null>
  /** Records the pass, the price it observed and the feed it asked, if any, and the resulting volatility. */
  beginPass(observed: ObservedPrice | null, asked?: AskedFeed | null): Promise<PassStart>
  /** Records the result of the pass, and when it ended. */
  finishPass(passId: number, counts: PassCounts): Promise<void>
  /** The plans a pass must look at, by index ranges only, in the order of its pages. */
  listDuePlans(due: DueRanges): Promise<number[]>
  /** One page: rolls the windows that are over, decides every plan, stores schedules, executions and wake-ups. */
  changeDuePlans(passId: number, planIds: readonly number[], decide: PlanDecisions): Promise<PassCounts>
  /** Whether an error of a page concerns the whole database, and not one of its rows. */
  isOutage(error: unknown): boolean

  /** The facts for a pass now, without recording one. */
  peekPass(): Promise<Omit<PassStart, 'passId'>>
  /** The tranches that one page of a pass would fire, without storing them. */
  previewDuePlans(planIds: readonly number[], decide: PlanDecisions): Promise<Preview[]>
}

// Plans, with the windows and the schedule that follow from them.

export type ListedPlan = Plan & { tenant: Tenant; window: Window | null }

export interface PlanStore {
  changePlan(
    tenant: Caller,
    ids: { partnerUserId: string; partnerPlanId: string },
    decide: (facts: PlanFacts, now: Instant) => PlanChange,
  ): Promise<Omit<Plan, 'planId'>>
  /** A tenant's plans after a partner_plan_id, in the order of these ids. */
  readPlans(tenant: Tenant, page: PageRequest<string>): Promise<PlanState[]>
  readPlan(tenant: Tenant, partnerPlanId: string): Promise<PlanState | null>
  listPlans(filter: TenantFilter, page: PageRequest): Promise<ListedPlan[]>
  /** A partner_plan_id is unique only within a tenant: returns all plans that have it. */
  findPlans(partnerPlanId: string): Promise<(ListedPlan & { windows: Window[]; schedule: Schedule | null })[]>
}

// Prices observed or imported, and the volatility that follows them.

/** A price and where it came from. */
export type ObservedPrice = { price: Price; source: string }
/** A feed that was queried for a price, and why it gave none; null when it gave one. */
export type AskedFeed = { name: string; failure: string | null }
export type ListedPrice = ObservedPrice & { at: Instant }

export interface PriceStore {
  /** Removes the price of an instant, and recomputes the volatility. Throws price_not_found. */
  removePrice(at: Instant, audit: (removed: ListedPrice) => AuditEntry): Promise<ListedPrice>
  /** Stores a price for the present instant and updates the volatility. Returns the instant. */
  addPrice(observed: ObservedPrice): Promise<Instant>
  listPrices(page: PageRequest): Promise<ListedPrice[]>
  /**
   * Adds the rows of every batch, or none: a source that throws leaves nothing behind. An instant that already has a
   * price keeps it. Returns how many were new, and recomputes the volatility. Throws import_running.
   */
  importPrices(batches: AsyncIterable<{ at: Instant; price: Price }[]>, source: string): Promise<number>
}

// The time and the data of test environments. Nothing here can reach a live tenant: the table behind it takes no live
// row, and every operation here begins by writing to that table.

/** A test environment's clock: `now` is the real time plus the offset. */
export type Sandbox = { tenant: Tenant; offsetMs: number; now: Instant }

/** The number of removed rows. */
export type Wiped = { users: number; plans: number; windows: number; executions: number; trades: number }

export type SandboxPage = { wakeUpId: number; planIds: readonly number[]; decisions: PlanDecisions }

/** The first stop after `after`; where others follow it within `togetherMs`, the last of them. */
type StopSearch = { after: Instant; leadMs: number; togetherMs: number }

export interface SandboxStore {
  /** The test environments whose clock has been moved, in the order of their partners. */
  listSandboxes(): Promise<Sandbox[]>
  /** The clock of one tenant, whether it was moved or not. */
  readSandbox(tenant: Tenant): Promise<Sandbox>
  /**
   * Records that a tenant's clock is about to advance by `byMs`, and returns its present offset, how many plans the
   * tenant has, and how many executions there is room for; `wakeUpId` marks the wake-ups of this advance. No other
   * advance of the tenant begins before `end` is called, or its process has died: two walks at once would step past
   * each other's stops. Throws database_in_use while another one is under way, sandbox_full without any room, and
   * sandbox_refused for a live tenant and beyond SANDBOX_UNTIL.
   */
  beginAdvance(
    tenant: Caller,
    byMs: number,
    audit: AuditEntry,
  ): Promise<{ sandbox: Sandbox; plans: number; room: number; wakeUpId: number; end: () => Promise<void> }>
  /** The next instant, in the tenant's time, at which one of its plans must be looked at; null when none waits. */
  findNextStop(tenant: Tenant, search: StopSearch): Promise<Instant | null>
  /** The tenant's plans that are due at an instant of its own time. */
  listSandboxDue(tenant: Tenant, due: DueRanges): Promise<number[]>
  /** Moves the clock forward and runs a page of a pass at the new time, in one transaction. */
  moveSandbox(tenant: Tenant, byMs: number, page: SandboxPage): Promise<PassCounts>
  /** Leases of unconfirmed executions that ended after `from` and by `to`. */
  countExpiredLeases(tenant: Tenant, from: Instant, to: Instant): Promise<number>
  /** Fires a tranche, or undoes everything. Throws plan_not_found, sandbox_full, sandbox_refused. */
  fireInSandbox(
    tenant: Caller,
    partnerPlanId: string,
    decisions: PlanDecisions,
    audit: AuditEntry,
  ): Promise<{ fired: Fired; wakeUpId: number }>
  /**
   * Removes all data of a test tenant except its keys, its webhook and its clock, in one transaction. Throws
   * sandbox_refused; for a caller with a key also if there are more than WIPE_ROWS_MAX rows.
   */
  resetSandbox(tenant: Caller, audit: AuditEntry): Promise<Wiped>
}

// Pricing tiers, and overrides, which give a partner a tier whatever its volume.

/** A null `fromMonth` means the present month; a null `tierName` ends the override. */
type TierOverride = { partnerSlug: string; fromMonth: string | null; tierName: string | null }

/** An override, or the end of one, and the month it begins in. */
export type OverrideStart = { fromMonth: string; tierName: string | null }

/** The last month with a monthly minimum, null for no end, and the month from which this applies. */
export type MinimumEnd = { fromMonth: string; lastMonth: string | null }

/** A month's terms: every version of every tier, the override, the last minimum as set by then, the partner's start. */
type Terms = {
  tiers: Tier[]
  override: string | null
  lastMinimum: string | null
  partnerSince: Instant | null
}

export interface TierStore {
  readTerms(tenant: Tenant, month: string): Promise<Terms>
  listTiers(): Promise<Tier[]>
  /** Adds a version of a tier, or replaces the one of its month; `decide` gets every existing version. */
  putTier(decide: (versions: Tier[], now: Instant) => Tier, audit: (tier: Tier) => AuditEntry): Promise<Tier>
  /** Returns its first month. Throws partner_not_found, tier_not_found, month_closed for a `fromMonth` that is over. */
  putTierOverride(override: TierOverride, audit: AuditEntry): Promise<string>
  /** The override in force in a month, null when there is none. */
  findTierOverride(slug: string, month: string): Promise<string | null>
  /** The overrides that begin after a month, in the order they begin. */
  listTierOverridesAfter(slug: string, month: string): Promise<OverrideStart[]>
  /** The last month with a monthly minimum, as set for a month; null while it has no end. */
  findLastMinimum(slug: string, month: string): Promise<string | null>
  /** All ends of a partner's minimum that were ever set, by month. */
  listMinimumEnds(slug: string): Promise<MinimumEnd[]>
}

// Issued invoices and credit notes, each with a number that is assigned once.

/** The amounts of an invoice or a credit note, and the printed part of the settings. */
export type Drawn = Pick<Issued, 'net' | 'tax' | 'details'>

/** Selects those issued within a span, of one partner or of all. */
type IssuedFilter = { slug: string | null; from: Instant; before: Instant }

export interface InvoiceStore {
  /**
   * Gives the invoice of a partner's month the next number of a series; an issued one stays as it is. Throws
   * partner_not_found, and invoice_conflict while the month can change.
   */
  issueInvoice(
    of: { slug: string; month: string } & Drawn,
    series: Series,
    audit: (issued: Issued) => AuditEntry,
  ): Promise<{ issued: Issued; isNew: boolean }>
  /** Issues a credit note for an invoice, as computed by `decide`. Throws invoice_not_found. */
  creditInvoice(
    number: string,
    series: Series,
    decide: (invoice: Issued, earlier: Issued[]) => Drawn,
    audit: (issued: Issued) => AuditEntry,
  ): Promise<Issued>
  /** Adds one issued before a restore, unchanged. False without its partner, or if its number or month is another's. */
  keepIssued(of: Issued & { series: string; position: number }): Promise<boolean>
  /** An invoice or a credit note by its number. */
  findInvoice(number: string): Promise<Issued | null>
  findInvoiceOf(slug: string, month: string): Promise<Issued | null>
  /** In the order of issue. */
  listInvoices(filter: IssuedFilter, page: PageRequest<Issued>): Promise<Issued[]>
}

// Operators' corrections: an adjustment of a trade, or a decision on a late fill.

/**
 * `unkept` is the number of further late fills of its execution, or of its tenant where the execution is null because
 * the ledger lacks it, which were counted but not kept.
 */
export type ListedLateFill = LateFill & {
  executionId: string
  tenant: Tenant
  execution: ListedExecution | null
  unkept: number
}

/** When a late fill was decided, and why, if a reason was given. */
export type Decided = { now: Instant; reason: string | null }

export interface TradeStore {
  /** Adjusts a trade and its window, and decides the late fills of its execution. Throws execution_not_found. */
  adjustTrade(
    executionId: string,
    decide: (facts: TradeFacts, now: Instant) => Correction,
    audit: (made: Correction) => AuditEntry,
  ): Promise<Correction>
  /**
   * Records a late fill, which also decides those with the same order, amounts and fee. Also returns the numbers of the
   * execution's late fills that still wait. Throws late_fill_not_found, and late_fill_conflict when no number is given
   * and not exactly one is undecided.
   */
  acceptLateFill(
    ids: LateFillDecision,
    decide: (facts: LateFillFacts, late: LateFill, now: Instant) => Acceptance,
    audit: (made: Acceptance, late: LateFill) => AuditEntry,
  ): Promise<Acceptance & { waiting: number[] }>
  /** Decides late fills, one or all of an execution, without recording them. Throws late_fill_not_found. */
  dismissLateFills(ids: LateFillDecision, audit: (dismissed: LateFill[]) => AuditEntry): Promise<LateFill[]>
  listLateFills(page: PageRequest, filter?: TenantFilter): Promise<ListedLateFill[]>
}

// Purchases that the ledger lacks, booked by an operator.

export interface PurchaseStore {
  /**
   * Books a purchase of a plan, as a trade of an execution of its own, unless it is on record already. `audit` gets the
   * booking. Throws plan_not_found, and whatever `decide` throws.
   */
  recordPurchase(
    tenant: Tenant,
    asked: { partnerPlanId: string; fill: Fill },
    decisions: {
      decide: (facts: PurchaseFacts, now: Instant) => Booking
      newExecutionId: PlanDecisions['newExecutionId']
    },
    audit: (made: Booked) => AuditEntry,
  ): Promise<Booking>
  /**
   * Keeps the report of a fill whose execution is unknown, once; counts it where there is no room. A report whose order
   * is on record is not kept, nor one of another tenant's execution.
   */
  keepUnknownFill(tenant: Caller, executionId: ExecutionId, report: Fill): Promise<void>
  /** The tenants that have reported on an unknown execution; none for a known one. */
  findUnknown(executionId: string): Promise<Tenant[]>
  /** The undecided reports of an order whose executions are unknown. */
  findUnknownFills(tenant: Tenant, partnerOrderId: string): Promise<{ executionId: string; late: LateFill }[]>
  /** Books such a report for a plan. Throws as acceptLateFill and recordPurchase do. */
  acceptUnknownFill(
    tenant: Tenant,
    ids: LateFillDecision & { partnerPlanId: string },
    decide: (facts: PurchaseFacts, late: LateFill, now: Instant) => Booked,
    audit: (made: Booked, late: LateFill) => AuditEntry,
  ): Promise<Booked>
  /** Resets the count of unkept reports of unknown executions, and returns it. Throws late_fill_not_found for 0. */
  dismissUnkept(tenant: Tenant, audit: (unkept: number) => AuditEntry): Promise<number>
}

// The users a partner has linked.

export type ListedUser = User & { tenant: Tenant; erasedAt: Instant | null }

/** A consent as the partner stated it, and when it arrived. Consents are never changed or removed. */
export type Consent = { version: string; timestamp: Instant; receivedAt: Instant }

export type UserRecord = ListedUser & { consents: Consent[]; plans: Plan[] }

/**
 * Where the text of an erased e-mail may remain: nowhere; in another row with the same text; in a log that a process
 * still reads; in a server's old row versions and log, where no query finds it. Backups are not considered.
 */
export type Remains = 'nowhere' | 'other_row' | 'log' | 'server'

/** A user who was erased in another database of the same tenants. */
export type ErasedUser = Omit<Tenant, 'tenantId'> & { partnerUserId: string; erasedAt: Instant }

export interface UserStore {
  changeUser(
    tenant: Caller,
    partnerUserId: string,
    decide: (current: User | null, now: Instant) => UserChange,
  ): Promise<{ user: User; plansPaused: number; executionsCancelled: number }>
  listUsers(tenant: Tenant, page: PageRequest): Promise<(ListedUser & { cursor: number })[]>
  /** The users of a tenant after one of them, by partner_user_id. */
  readUsers(tenant: Tenant, page: PageRequest<string>): Promise<User[]>
  /** A user with its newest consents, oldest first. */
  readUser(tenant: Tenant, partnerUserId: string): Promise<(User & { consents: Consent[] }) | null>
  /** A user with every consent, oldest first, and every plan. */
  findUser(tenant: Tenant, partnerUserId: string): Promise<UserRecord | null>
  /** Removes e-mail and provider, also from disks that the store controls. May be repeated. Throws user_not_found. */
  eraseUser(
    tenant: Tenant,
    partnerUserId: string,
    audit: AuditEntry,
  ): Promise<{ user: User; erasedAt: Instant; remains: Remains }>
  /**
   * Erases again what an earlier state has brought back: users with a later erasure than the last in that state, by
   * what is remembered of each hash (erasures.ts) or found in the databases it replaces. Returns how many.
   */
  eraseAgain(
    known: { remembered: ReadonlyMap<string, Instant>; replaced: readonly ErasedUser[] },
    audit: (partnerUserId: string, tenant: Tenant) => AuditEntry,
  ): Promise<number>
}

// Wake-ups, and how they are claimed for sending.

export interface WakeUpStore {
  /** Claims the wake-ups that a pass wrote, each exactly once, with the webhooks to send them to. */
  claimWakeUps(passId: number): Promise<(WakeUp & { webhook: Webhook })[]>
}

// Webhooks, and the outcomes of attempts to reach them.

export interface WebhookStore {
  findWebhook(tenant: Tenant): Promise<Webhook | null>
  /** `audit` is given when an operator makes the change, not the partner. */
  changeWebhook(
    tenant: Caller,
    decide: (current: Webhook | null, now: Instant) => Webhook,
    audit?: AuditEntry,
  ): Promise<Webhook>
  /** Returns whether there was one to delete. */
  deleteWebhook(tenant: Caller): Promise<boolean>
  /** Records what was sent, also in the webhook unless it was replaced meanwhile. Returns the webhook as it is now. */
  noteAttempt(
    sent: WakeUp & { webhook: Webhook },
    attempt: Attempt,
    decide: (current: Webhook, now: Instant) => Webhook,
  ): Promise<Webhook | null>
  /** The webhook for a test, and when tests ended, newest first. Refused where a write of the call would be. */
  readyToTest(tenant: Caller): Promise<{ webhook: Webhook | null; tests: Instant[]; now: Instant }>
  /** Records a test, which does not change the webhook. */
  noteTest(tenant: Tenant, sent: WakeUp & { webhook: Webhook }, attempt: Attempt): Promise<Delivered>
  /** The record of what was sent to the tenant's webhooks, the newest first. */
  listDeliveries(tenant: Tenant): Promise<Delivered[]>
}

// Long listings, page by page.

/** A page of a listing: at most `limit` rows after `after`, the cursor of the previous page's last row. */
export type PageRequest<After = number | string> = { after: After | null; limit: number }

// The latest results of the jobs beside the scheduler.

export interface ResultStore {
  /** Replaces the job's earlier result on that host. It is dated by the store's clock. */
  noteResult(
    result: Omit<JobResult, 'at' | 'wellAt' | 'beginsAt'> & Partial<Pick<JobResult, 'beginsAt'>>,
  ): Promise<void>
  /** Null before the first one. */
  findResult(job: JobResult['job'], host: string): Promise<JobResult | null>
  /** Forgets those of every port of the machine. */
  forgetCertificates(machine: string): Promise<void>
}

// The one state in which nothing fires and nothing is delivered.

export interface FreezeStore {
  /**
   * Null for a database that is not frozen. A server on another timeline than that of the last write counts as frozen
   * already; the next write freezes it.
   */
  readFrozen(): Promise<Frozen | null>
  /** When it resolves, all earlier work that fires or delivers has ended. A frozen database stays as it is. */
  freeze(why: Pick<Frozen, 'by' | 'reason'>, audit: AuditEntry): Promise<{ frozen: Frozen; isNew: boolean }>
  /** Ends the frozen state, and returns it; null when nothing was frozen. Throws database_moved. */
  resume(audit: AuditEntry): Promise<Frozen | null>
}
