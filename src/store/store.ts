// What the rest of the program may ask of the disk. One method is one transaction; a write takes a pure decision,
// runs it on what it has just read, and stores what it returns. `now` is read inside the transaction, so neither a
// wait for a lock nor another process can make it stale.

import type { Adjustment } from '../core/adjustment.ts'
import type { Confirmation, Execution, ExecutionSeen, ExecutionStatus, Tranche } from '../core/execution.ts'
import type { ExecutionId } from '../core/execution-id.ts'
import type { Frequency } from '../core/frequency.ts'
import type { Instant } from '../core/instant.ts'
import type { ApiKey, KeySeen, KeyTerms } from '../core/key.ts'
import type { Price, Usd } from '../core/money.ts'
import type { Environment, Partner, Tenant } from '../core/partner.ts'
import type { Plan, PlanChange, PlanSeen } from '../core/plan.ts'
import type { Schedule } from '../core/schedule-state.ts'
import type { Tier } from '../core/tier.ts'
import type { Report, Trade } from '../core/trade.ts'
import type { User, UserChange } from '../core/user.ts'
import type { Volatility } from '../core/volatility.ts'
import type { WakeUp, Webhook } from '../core/webhook.ts'
import type { Opening, Window } from '../core/window.ts'
import type { HealthStore } from './health.ts'
import type { LeverStore } from './levers.ts'
import type { OpsStore } from './monitoring.ts'
import type { ReportStore } from './months.ts'
import type { SandboxStore } from './sandboxes.ts'

export interface Store
  extends PartnerStore,
    UserStore,
    PlanStore,
    ExecutionStore,
    WebhookStore,
    LeverStore,
    SchedulerStore,
    SandboxStore,
    PriceStore,
    ReportStore,
    ListingStore,
    OpsStore,
    HealthStore {
  close(): void
}

/** Who did what to which thing: kept with every change an operator makes. */
export type AuditEntry = { osUser: string; action: string; subject: string; detail: Record<string, unknown> }
export type AuditRow = AuditEntry & { auditId: number; at: Instant }

export interface PartnerStore {
  /** Adds a partner with its two tenants, or throws partner_exists. */
  addPartner(partner: Pick<Partner, 'partnerSlug' | 'name'>, audit: AuditEntry): Promise<Partner>
  /** Throws partner_not_found. */
  changePartner(
    slug: string,
    decide: (seen: Partner, now: Instant) => Partner,
    audit: AuditEntry,
  ): Promise<Partner>
  findPartner(slug: string): Promise<Partner | null>
  findTenant(slug: string, environment: Environment): Promise<Tenant | null>

  findKey(sha256: string): Promise<KeySeen | null>
  markKeyUsed(keyId: string): Promise<void>
  addKey(key: NewKey, audit: AuditEntry): Promise<ApiKey>
  /** Changes a key, and adds another in the same transaction when a rotation asks for it. Throws key_not_found. */
  changeKey(
    keyId: string,
    decide: (seen: ApiKey, now: Instant) => { key: ApiKey; successor: NewKey | null },
    audit: AuditEntry,
  ): Promise<{ key: ApiKey; successor: ApiKey | null }>
  listKeys(slug: string): Promise<ApiKey[]>

  listTiers(): Promise<Tier[]>
  /** Adds a version of a tier, or replaces the one of its month; `decide` sees every version there is. */
  putTier(decide: (versions: Tier[], now: Instant) => Tier, audit: (tier: Tier) => AuditEntry): Promise<Tier>
  putTierOverride(override: TierOverride, audit: AuditEntry): Promise<void>
  /** The override in force in a month, null when there is none. */
  findTierOverride(slug: string, month: string): Promise<string | null>
}

export type NewKey = KeyTerms & { keyId: string; sha256: string; prefix: string; lastFour: string }

/** A null `fromMonth` stands for the present month. */
export type TierOverride = { partnerSlug: string; fromMonth: string | null; tierName: string | null }

export interface UserStore {
  changeUser(
    tenant: Tenant,
    partnerUserId: string,
    decide: (seen: User | null, now: Instant) => UserChange,
  ): Promise<{ user: User; plansPaused: number; executionsCancelled: number }>
}

export interface PlanStore {
  changePlan(
    tenant: Tenant,
    ids: { partnerUserId: string; partnerPlanId: string },
    decide: (seen: PlanSeen, now: Instant) => PlanChange,
  ): Promise<Omit<Plan, 'planId'>>
}

export interface ExecutionStore {
  /** Hands out what is due, oldest first: each handed to exactly one poll. `remaining` is what a next poll would get. */
  deliverDue(
    tenant: Tenant,
    limit: number,
    deliver: (execution: Execution, now: Instant) => Execution,
  ): Promise<{ executions: Execution[]; remaining: number }>
  /** Stores a confirmation; a `kept_late` one is stored too, for its caller to refuse afterwards. */
  changeExecution(
    tenant: Tenant,
    ids: { executionId: string; partnerOrderId: string },
    decide: (seen: ExecutionSeen, now: Instant) => Confirmation,
  ): Promise<Confirmation>
  /** Throws late_fill_not_found, or late_fill_conflict when an execution has several reports and none is named. */
  acceptLateReport(
    ids: { executionId: string; reportId: number | null },
    decide: (seen: ExecutionSeen, report: Report, now: Instant) => Confirmation & { kind: 'recorded' },
    audit: AuditEntry,
  ): Promise<Trade>
}

export interface WebhookStore {
  findWebhook(tenant: Tenant): Promise<Webhook | null>
  changeWebhook(tenant: Tenant, decide: (seen: Webhook | null, now: Instant) => Webhook): Promise<Webhook>
  /** Whether there was one to delete. */
  deleteWebhook(tenant: Tenant): Promise<boolean>
  /**
   * Hands out the wake-ups a pass wrote, each once and never again, with the registrations to send them to. Those of
   * other passes, left by a crash, are never handed out.
   */
  claimWakeUps(passId: number): Promise<(WakeUp & { webhook: Webhook })[]>
  /** Enters how an attempt ended, unless the webhook was replaced meanwhile. Answers the webhook as it now is. */
  noteAttempt(
    tenant: Tenant,
    attempted: Webhook,
    decide: (seen: Webhook, now: Instant) => Webhook,
  ): Promise<Webhook | null>
}

/** A price and where it came from. */
export type ObservedPrice = { price: Price; source: string }
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
export interface SchedulerStore {
  /** Takes the scheduler's lock for this process, or null when another holds it. A dead holder's lock is free. */
  acquirePassLock(): (() => void) | null
  /** Notes the pass, its price if it has one of its own, and the volatility after it. */
  beginPass(observed: ObservedPrice | null): Promise<PassStart>
  /** The plans a pass must look at, by index ranges only, in id order. */
  listDuePlans(due: DueRanges): Promise<number[]>
  /** One page of a pass: rolls the windows that are over, decides every plan, stores schedules, executions and wake-ups. */
  changeDuePlans(passId: number, planIds: readonly number[], decide: PlanDecisions): Promise<PassCounts>
  finishPass(passId: number, counts: PassCounts): Promise<void>

  /** What a pass would know now, without noting one. */
  peekPass(): Promise<Omit<PassStart, 'passId'>>
  /** What one page of a pass would fire, storing nothing. */
  previewDuePlans(planIds: readonly number[], decide: PlanDecisions): Promise<Preview[]>
}

/** One tranche that a pass fires. */
export type Fired = {
  tenant: Tenant
  executionId: ExecutionId
  planId: number
  tranche: Tranche
  schedule: Schedule
}

export type Preview = Fired & { partnerPlanId: string }

export type DueRanges = { now: Instant; livePrice: Price | null; leadMs: number }

export type PlanDecisions = {
  /** The window that follows one that is over, null while it runs. */
  roll: (
    window: { start: Instant; end: Instant; frequency: Frequency; amount: Usd },
    now: Instant,
  ) => Opening | null
  /** `now` is the time of the plan's tenant, `real` that of prices; they differ in a sandbox only. */
  decide: (schedule: Schedule, now: Instant, real: Instant) => { schedule: Schedule; tranche: Tranche | null }
  newExecutionId: (previous: ExecutionId | null, real: Instant) => ExecutionId
}

export type PriceRow = { at: Instant; price: Price; source: string }

export interface PriceStore {
  /** Keeps a price of this instant and moves the volatility on. Answers the instant. */
  addPrice(observed: ObservedPrice): Promise<Instant>
  listPrices(page: PageRequest): Promise<PriceRow[]>
  /**
   * Adds the rows of every batch, or none: a source that throws leaves nothing behind. An instant that already has a
   * price keeps it. Answers how many were new; the volatility is worked out anew. Throws import_running.
   */
  importPrices(batches: AsyncIterable<{ at: Instant; price: Price }[]>, source: string): Promise<number>
}

/** A page of a listing: at most `limit` rows behind `after`, which is the last row's cursor. */
export type PageRequest = { after: number | string | null; limit: number }

export type UserRow = User & { tenant: Tenant; erasedAt: Instant | null }
export type PlanRow = Plan & { tenant: Tenant; window: Window | null }
export type ExecutionRow = Execution & { tenant: Tenant }
export type LateFillRow = {
  reportId: number
  execution: ExecutionRow
  report: Report
  receivedAt: Instant
  acceptedAt: Instant | null
}
export type ExecutionFilter = {
  slug: string | null
  environment: Environment | null
  status: ExecutionStatus | null
  stuck: boolean
}

export interface ListingStore {
  listPartners(): Promise<Partner[]>
  listUsers(tenant: Tenant, page: PageRequest): Promise<(UserRow & { cursor: number })[]>
  listPlans(
    filter: { slug: string | null; environment: Environment | null },
    page: PageRequest,
  ): Promise<PlanRow[]>
  /** Plans have no id of their own outside a tenant: all that carry this partner_plan_id. */
  findPlans(partnerPlanId: string): Promise<(PlanRow & { windows: Window[]; schedule: Schedule | null })[]>
  listExecutions(filter: ExecutionFilter, page: PageRequest): Promise<ExecutionRow[]>
  findExecution(executionId: string): Promise<{
    execution: ExecutionRow
    window: Window
    trade: Trade | null
    adjustments: Adjustment[]
  } | null>
  listLateFills(page: PageRequest): Promise<LateFillRow[]>
  listAudit(page: PageRequest): Promise<AuditRow[]>
}
