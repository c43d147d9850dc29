// What a replaced database has and the copy in its place lacks: what was stopped since the copy was made, what was
// bought, and what was issued. A stop can be carried over into the copy; a start never is. Invoices always are.

import { BOOKED_FROM } from '../core/corrections/purchase.ts'
import { cancelByHand, idempotencyKey } from '../core/execution.ts'
import type { Issued } from '../core/invoice.ts'
import { revoke } from '../core/key.ts'
import type { Usd } from '../core/money.ts'
import { type Environment, setHeld, setPartnerStatus, type Tenant } from '../core/partner.ts'
import { writePlan } from '../core/plan.ts'
import { Problem } from '../core/problem.ts'
import { earlier, formatInstant, type Instant } from '../core/time.ts'
import { setUserStatus } from '../core/user.ts'
import type { Frequency } from '../core/window.ts'
import { type Erasure, latestErasures } from './erasures.ts'
import type { AuditEntry, Store } from './store.ts'

const STOP_KINDS = [
  'partner_disabled',
  'partner_held',
  'key_ended',
  'plan_cancelled',
  'plan_paused',
  'plan_postponed',
  'plan_untimed',
  'user_disabled',
  'execution_cancelled',
  'user_erased',
] as const
type StopKind = (typeof STOP_KINDS)[number]

/** Something that was stopped since the copy was made. Null where it is about a partner as a whole. */
export type Stop = {
  kind: StopKind
  partnerSlug: string
  environment: Environment | null
  /** What was stopped: a partner, a key, a user, a plan or an execution. */
  subject: string
  /** Of a plan. */
  partnerUserId: string | null
  /** When a key ended, or will. */
  endsAt: Instant | null
}

/** A purchase that the copy knows nothing of, as it was recorded or, kept as a late fill, reported. */
export type UnknownTrade = {
  partnerSlug: string
  environment: Environment
  /** Null for a late fill of an execution that was not known. */
  partnerPlanId: string | null
  executionId: string
  partnerOrderId: string
  /** Under which it was ordered; null where no instruction of that database was. */
  idempotencyKey: string | null
  usd: bigint
  btc: bigint
  recordedAt: Instant
}

/** A plan whose partner has changed its terms since: from the copy, it would be bought on the old ones. */
export type OtherTerms = {
  partnerSlug: string
  environment: Environment
  partnerPlanId: string
  inCopy: Terms
  since: Terms
}
type Terms = { amount: bigint; frequency: Frequency }

/** What an operator did that the copy knows nothing of and that is not a stop, such as a change of a tier. */
export type UnknownAction = { at: Instant; action: string; subject: string }

/** An invoice or a credit note that the copy knows nothing of, and that its reader has. */
export type UnknownInvoice = Issued & { series: string; position: number }

export type SinceCopy = {
  /** The names under which the replaced databases are kept, the latest first. */
  names: readonly string[]
  stops: Stop[]
  /** The first of them; `trades` in `counts` says how many there are. */
  trades: UnknownTrade[]
  /** Late fills that nobody has decided on: the partner was answered, and will not send them again by itself. */
  lateFills: UnknownTrade[]
  terms: OtherTerms[]
  actions: UnknownAction[]
  /** In the order of their numbers. */
  issued: UnknownInvoice[]
  /** How many of each the copy lacks, and how many executions are open in it that had ended. */
  counts: Record<keyof typeof COUNTS, number>
  /** What was not read, and why. */
  unread: string[]
}

/** How many purchases are listed, and how many of each of the other lists. */
const TRADES_LISTED_MAX = 10_000

/**
 * Asks the copy, with the replaced database under the name `old`. Returns as many rows as could be read, and why not
 * all.
 */
export type AskBoth = (sql: string) => Promise<{ rows: Record<string, unknown>[]; failure: string | null }>

// The two are of one lineage, but are matched by the names that partners know: those never change.
const IN_COPY = `join old.tenants ot on ot.tenant_id = o.tenant_id
  join tenants t on t.partner_slug = ot.partner_slug and t.environment = ot.environment`
const PLANS = `old.plans o ${IN_COPY}
  join plans n on n.tenant_id = t.tenant_id and n.partner_plan_id = o.partner_plan_id
  join users u on u.user_id = n.user_id`
const USERS = `old.users o ${IN_COPY}
  join users n on n.tenant_id = t.tenant_id and n.partner_user_id = o.partner_user_id`

const planStop = (condition: string): string =>
  `select t.partner_slug, t.environment, o.partner_plan_id as subject, u.partner_user_id from ${PLANS}
   where ${condition} order by o.plan_id`
const userStop = (condition: string): string =>
  `select t.partner_slug, t.environment, o.partner_user_id as subject from ${USERS}
   where ${condition} order by o.user_id`
const partnerStop = (condition: string): string =>
  `select o.partner_slug, o.partner_slug as subject from old.partners o
   join partners n on n.partner_slug = o.partner_slug where ${condition} order by o.partner_slug`

const STOPS: Record<StopKind, string> = {
  partner_disabled: partnerStop(`o.status = 'disabled' and n.status <> 'disabled'`),
  partner_held: partnerStop('o.held = 1 and n.held = 0'),
  key_ended: `select t.partner_slug, t.environment, o.key_id as subject, o.revoked_at, o.expires_at as ends_at
    from old.api_keys o join api_keys n on n.key_id = o.key_id join tenants t on t.tenant_id = n.tenant_id
    where (o.revoked_at is not null and n.revoked_at is null)
      or (n.revoked_at is null and o.expires_at is not null and (n.expires_at is null or o.expires_at < n.expires_at))
    order by o.key_id`,
  plan_cancelled: planStop(`o.status = 'cancelled' and n.status <> 'cancelled'`),
  plan_paused: planStop(`o.status = 'paused' and n.status = 'active'`),
  // It waited for a start_date that was given since. From the copy it would fire at once; sent again it would keep its
  // window, so it is paused, and its partner gives the date when it ends that.
  plan_postponed: planStop(
    `o.status = 'active' and n.status = 'active' and o.start_date > n.start_date and exists (
      select 1 from old.windows w where w.plan_id = o.plan_id and w.closed_at is null and w.window_start = o.start_date
        and not exists (
          select 1 from old.executions e where e.plan_id = w.plan_id and e.window_start = w.window_start))`,
  ),
  plan_untimed: planStop(
    `o.smart_timing_enabled = 0 and n.smart_timing_enabled = 1 and o.status <> 'cancelled' and n.status <> 'cancelled'`,
  ),
  user_disabled: userStop(`o.status = 'disabled' and n.status <> 'disabled'`),
  execution_cancelled: `select t.partner_slug, t.environment, o.execution_id as subject
    from old.executions o join executions n on n.execution_id = o.execution_id join tenants t on t.tenant_id = n.tenant_id
    where o.cancelled_at is not null and n.status in ('pending', 'sent') order by o.execution_id`,
  user_erased: userStop(
    // What a copy has of a user whose erasure it knows was given after that.
    `o.erased_at is not null and o.email is null and (n.email is not null or n.auth_provider is not null)
      and n.erased_at is distinct from o.erased_at`,
  ),
}

const lacking = (table: string, key: string, condition = 'true'): string =>
  `select count(*) as n from old.${table} o
   where ${condition} and not exists (select 1 from ${table} n where n.${key} = o.${key})`
const IS_PURCHASE = 'o.usd_amount is not null'
const COUNTS = {
  executions: lacking('executions', 'execution_id'),
  trades: lacking('trades', 'execution_id', IS_PURCHASE),
  adjustments: `select count(*) as n from old.adjustments o where not exists (
    select 1 from adjustments n where n.execution_id = o.execution_id and n.recorded_at = o.recorded_at)`,
  executions_ended: `select count(*) as n from old.executions o join executions n on n.execution_id = o.execution_id
    where n.status in ('pending', 'sent') and o.status not in ('pending', 'sent')`,
  users: lacking('users', 'user_id'),
  plans: lacking('plans', 'plan_id'),
  keys: lacking('api_keys', 'key_id'),
  // A registration has a secret of its own, so one with another secret is not known in the copy.
  webhooks: `select count(*) as n from old.webhooks o ${IN_COPY}
    where not exists (select 1 from webhooks n where n.tenant_id = t.tenant_id and n.secret = o.secret)`,
}
const NONE_LACKING = Object.fromEntries(Object.keys(COUNTS).map((what) => [what, 0])) as SinceCopy['counts']

const TRADES = `select t.partner_slug, t.environment, p.partner_plan_id, o.execution_id, o.partner_order_id, o.usd_amount,
    o.btc_amount, o.recorded_at, e.window_start, e.tranche_index
  from old.trades o join old.tenants t on t.tenant_id = o.tenant_id join old.plans p on p.plan_id = o.plan_id
    join old.executions e on e.execution_id = o.execution_id
  where ${IS_PURCHASE} and not exists (select 1 from trades n where n.execution_id = o.execution_id)
  order by o.recorded_at, o.execution_id limit ${TRADES_LISTED_MAX}`

const LATE_FILLS = `select t.partner_slug, t.environment, p.partner_plan_id, o.execution_id, o.partner_order_id,
    o.usd_amount, o.btc_amount, o.received_at as recorded_at, e.window_start, e.tranche_index
  from old.late_reports o join old.tenants t on t.tenant_id = o.tenant_id
  left join old.executions e on e.execution_id = o.execution_id left join old.plans p on p.plan_id = e.plan_id
  where o.decided_at is null and not exists (
    select 1 from late_reports n where n.execution_id = o.execution_id and n.fingerprint = o.fingerprint)
  order by o.received_at, o.report_id limit ${TRADES_LISTED_MAX}`

// Of two copies put back in a row, the first can be the older one, so the later change counts. A clock that has gone
// back may date it before the copy, but new terms begin a window, and the copy has no such one.
const TERMS = `select t.partner_slug, t.environment, o.partner_plan_id, n.amount_usd as copy_usd,
    n.frequency as copy_frequency, o.amount_usd, o.frequency
  from ${PLANS}
  where (o.amount_usd <> n.amount_usd or o.frequency <> n.frequency)
    and o.status <> 'cancelled' and n.status <> 'cancelled'
    and (o.updated_at > n.updated_at or exists (
      select 1 from old.windows ow where ow.plan_id = o.plan_id and ow.closed_at is null and not exists (
        select 1 from windows nw where nw.plan_id = n.plan_id and nw.window_start = ow.window_start
          and nw.window_end = ow.window_end and nw.budget = ow.budget)))
  order by o.plan_id limit ${TRADES_LISTED_MAX}`

// When it went on, the latest no longer named what it had replaced. A copy that has the entry is from after that.
const RESUMED = `select o.detail from old.audit o
  where o.action = 'database.resume' and not exists (
    select 1 from audit n where n.action = o.action and n.at = o.at)
  order by o.audit_id`

// Its number alone may be another entry's: each of the two has gone on by itself. What ended something is among the
// stops, what was issued has a list of its own, and a sandbox is not missed.
const ACTIONS = `select o.at, o.action, o.subject from old.audit o
  where o.action not like 'database.%' and o.action not like 'sandbox.%'
    and o.action not in ('partner.disable', 'partner.hold', 'key.revoke', 'user.erase', 'execution.cancel',
      'billing.issue', 'billing.credit')
    and not exists (select 1 from audit n
      where n.audit_id = o.audit_id and n.at = o.at and n.action = o.action and n.subject = o.subject)
  order by o.audit_id limit ${TRADES_LISTED_MAX}`

const ISSUED = `select o.* from old.invoices o where not exists (select 1 from invoices n where n.number = o.number)
  order by o.series, o.position`
/** Of a database of a version that issued none. */
const IS_NO_TABLE = /no such table|does not exist/

/** Compares the replaced databases with the copy, each under its name, the latest first. */
export async function readReplaced(replaced: readonly { name: string; ask: AskBoth }[]): Promise<SinceCopy> {
  const sinceCopy: SinceCopy = {
    names: replaced.map(({ name }) => name),
    stops: [],
    trades: [],
    lateFills: [],
    terms: [],
    actions: [],
    issued: [],
    counts: { ...NONE_LACKING },
    unread: [],
  }
  const known = new Set<string>()
  const trades = new Map<string, UnknownTrade>()
  const lateFills = new Map<string, UnknownTrade>()
  const terms = new Map<string, OtherTerms>()
  const actions = new Map<string, UnknownAction>()
  const issued = new Map<string, UnknownInvoice>()
  for (const { name, ask } of replaced) {
    const failures = new Map<string, string[]>()
    const rowsOf = async (what: string, sql: string): Promise<Record<string, unknown>[]> => {
      const { rows, failure } = await ask(sql)
      if (failure !== null && !(sql === ISSUED && IS_NO_TABLE.test(failure)))
        failures.set(failure, [...(failures.get(failure) ?? []), what])
      return rows
    }
    for (const kind of STOP_KINDS)
      for (const row of await rowsOf(kind, STOPS[kind])) {
        const stop = stopOf(kind, row)
        const key = JSON.stringify([kind, stop.partnerSlug, stop.environment, stop.subject])
        if (!known.has(key)) sinceCopy.stops.push(stop)
        known.add(key)
      }
    // Several may know of the same: each has begun with a part of what the one before it had.
    for (const [what, sql] of Object.entries(COUNTS))
      for (const { n } of await rowsOf(what, sql)) {
        const count = what as keyof typeof COUNTS
        sinceCopy.counts[count] = Math.max(sinceCopy.counts[count], Number(n))
      }
    for (const row of await rowsOf('trades', TRADES)) trades.set(String(row.execution_id), tradeOf(row))
    for (const row of await rowsOf('late fills', LATE_FILLS))
      lateFills.set(`${row.execution_id} ${row.partner_order_id} ${row.recorded_at}`, tradeOf(row))
    for (const row of await rowsOf('terms of plans', TERMS)) {
      const key = JSON.stringify([row.partner_slug, row.environment, row.partner_plan_id])
      if (!terms.has(key)) terms.set(key, termsOf(row))
    }
    for (const { at, action, subject } of await rowsOf('audit', ACTIONS)) {
      const done = { at: Number(at) as Instant, action: String(action), subject: String(subject) }
      actions.set(JSON.stringify(done), done)
    }
    for (const row of await rowsOf('invoices', ISSUED)) {
      const one = invoiceOf(row)
      if (!issued.has(one.number)) issued.set(one.number, one)
    }
    if (name === sinceCopy.names[0])
      for (const { detail } of await rowsOf('audit', RESUMED))
        sinceCopy.unread.push(...notAsked(String(detail), sinceCopy))
    for (const [failure, what] of failures)
      sinceCopy.unread.push(`${what.join(', ')} of ${name} (${failure})`)
  }
  sinceCopy.trades = [...trades.values()]
  // What an earlier one had recorded, and was reported again after its restore, is said once.
  const bought = new Set(sinceCopy.trades.map(purchaseKey))
  sinceCopy.lateFills = [...lateFills.values()].filter((late) => !bought.has(purchaseKey(late)))
  sinceCopy.issued = [...issued.values()].sort((a, b) =>
    a.series === b.series ? a.position - b.position : a.series < b.series ? -1 : 1,
  )
  sinceCopy.terms = [...terms.values()]
  sinceCopy.actions = [...actions.values()].sort((a, b) => a.at - b.at)
  sinceCopy.stops.sort((a, b) => STOP_KINDS.indexOf(a.kind) - STOP_KINDS.indexOf(b.kind))
  return sinceCopy
}

/** What gave way before a resume may have been started again since: only an operator can tell. */
function notAsked(detail: string, { names }: SinceCopy): string[] {
  return replacedIn(detail)
    .filter((name) => !names.includes(name))
    .map(
      (name) =>
        `${name} gave way before the last resume: to have its stops too, restore it first, then the copy`,
    )
}

/** Of an entry that is perhaps damaged, and of an earlier version none. */
function replacedIn(detail: string): string[] {
  try {
    const { replaced } = JSON.parse(detail) as { replaced?: unknown }
    return Array.isArray(replaced) ? replaced.map(String) : []
  } catch {
    return []
  }
}

const textOrNull = (value: unknown): string | null =>
  value === null || value === undefined ? null : String(value)

function stopOf(kind: StopKind, row: Record<string, unknown>): Stop {
  const ends = row.ends_at ?? null
  return {
    kind,
    partnerSlug: String(row.partner_slug),
    environment: textOrNull(row.environment) as Environment | null,
    subject: String(row.subject),
    partnerUserId: textOrNull(row.partner_user_id),
    // Null for one that was revoked: it ends at once.
    endsAt: ends === null || (row.revoked_at ?? null) !== null ? null : (Number(ends) as Instant),
  }
}

function keyOf({ partner_plan_id, window_start, tranche_index }: Record<string, unknown>): string | null {
  if (window_start == null || Number(tranche_index) >= BOOKED_FROM) return null
  const execution = {
    partnerPlanId: String(partner_plan_id),
    windowStart: Number(window_start) as Instant,
    trancheIndex: Number(tranche_index),
  }
  return idempotencyKey(execution, formatInstant)
}

const tradeOf = (row: Record<string, unknown>): UnknownTrade => ({
  partnerSlug: String(row.partner_slug),
  environment: String(row.environment) as Environment,
  partnerPlanId: textOrNull(row.partner_plan_id),
  executionId: String(row.execution_id),
  partnerOrderId: String(row.partner_order_id),
  idempotencyKey: keyOf(row),
  usd: BigInt(row.usd_amount as bigint),
  btc: BigInt((row.btc_amount as bigint | null) ?? 0n),
  recordedAt: Number(row.recorded_at) as Instant,
})

const invoiceOf = (row: Record<string, unknown>): UnknownInvoice => ({
  number: String(row.number),
  series: String(row.series),
  position: Number(row.position),
  partnerSlug: String(row.partner_slug),
  month: String(row.month),
  corrects: textOrNull(row.corrects),
  issuedAt: Number(row.issued_at) as Instant,
  net: BigInt(row.net_usd as bigint) as Usd,
  tax: BigInt(row.tax_usd as bigint) as Usd,
  details: String(row.details),
})

const termsOf = (row: Record<string, unknown>): OtherTerms => ({
  partnerSlug: String(row.partner_slug),
  environment: String(row.environment) as Environment,
  partnerPlanId: String(row.partner_plan_id),
  inCopy: { amount: BigInt(row.copy_usd as bigint), frequency: String(row.copy_frequency) as Frequency },
  since: { amount: BigInt(row.amount_usd as bigint), frequency: String(row.frequency) as Frequency },
})

const purchaseKey = ({ partnerSlug, environment, partnerOrderId, usd, btc }: UnknownTrade): string =>
  JSON.stringify([partnerSlug, environment, partnerOrderId, `${usd}`, `${btc}`])

// What is done to a copy before it has its name, and so before anything can fire: erasures are done again, and what was
// issued is kept, whatever else; stops are carried over when that was asked for.

type Mending = {
  /** What is remembered of erasures. */
  erasures: readonly Erasure[]
  carriesStops: boolean
  /** The entry of the restore itself, whose author all others have. */
  audit: AuditEntry
}
export type Mended = {
  erasedAgain: number
  carried: Stop[]
  /** The numbers of what was issued since the copy, and is in it now. */
  kept: ReadonlySet<string>
}

/**
 * Writes the entry of the restore, and then does what comes of it, each with an entry of its own. Safe to repeat: what
 * has stopped already stays as it is.
 */
export async function mend(store: Store, sinceCopy: SinceCopy | null, mending: Mending): Promise<Mended> {
  const { erasures, carriesStops, audit } = mending
  const stops = sinceCopy?.stops ?? []
  const erased = stops.filter(({ kind }) => kind === 'user_erased')
  const others = carriesStops ? stops.filter(({ kind }) => kind !== 'user_erased') : []
  const entryOf = (partnerUserId: string, { partnerSlug, environment }: Tenant): AuditEntry => ({
    ...audit,
    action: 'user.erase',
    subject: partnerUserId,
    detail: { partner_slug: partnerSlug, environment, again: true },
  })
  await store.addAuditEntry(audit)
  let erasedAgain = await store.eraseAgain(latestErasures(erasures), entryOf)
  for (const stop of erased) {
    const tenant = await tenantOf(store, stop)
    if (!tenant || !(await hasPersonalData(store, tenant, stop.subject))) continue
    await store.eraseUser(tenant, stop.subject, entryOf(stop.subject, tenant))
    erasedAgain += 1
  }
  for (const stop of others) {
    const entry = entryFor(stop, sinceCopy, audit)
    await carry(store, stop, entry)
    // What goes through a partner's own call leaves no entry of its own.
    if (!OWN_ENTRY.has(stop.kind)) await store.addAuditEntry(entry)
  }
  return { erasedAgain, carried: others, kept: await keepAll(store, sinceCopy, audit) }
}

/** A number that was sent stands for what it was sent with: given again, it would stand for two. */
async function keepAll(
  store: Store,
  sinceCopy: SinceCopy | null,
  audit: AuditEntry,
): Promise<ReadonlySet<string>> {
  const kept = new Set<string>()
  for (const one of sinceCopy?.issued ?? []) {
    if (!(await store.keepIssued(one))) continue
    const detail = { invoice_number: one.number, month: one.month, from: sinceCopy?.names.at(0) ?? null }
    await store.addAuditEntry({
      ...audit,
      action: 'database.carry_invoice',
      subject: one.partnerSlug,
      detail,
    })
    kept.add(one.number)
  }
  return kept
}

const OWN_ENTRY: ReadonlySet<StopKind> = new Set([
  'partner_disabled',
  'partner_held',
  'key_ended',
  'execution_cancelled',
])

async function tenantOf(store: Store, { partnerSlug, environment }: Stop): Promise<Tenant | null> {
  return environment === null ? null : store.findTenant(partnerSlug, environment)
}

async function hasPersonalData(store: Store, tenant: Tenant, partnerUserId: string): Promise<boolean> {
  const user = await store.findUser(tenant, partnerUserId)
  return user !== null && (user.email !== null || user.authProvider !== null)
}

const entryFor = (
  { kind, partnerSlug, environment, subject }: Stop,
  sinceCopy: SinceCopy | null,
  audit: AuditEntry,
): AuditEntry => ({
  ...audit,
  action: 'database.carry_stop',
  subject,
  detail: { stop: kind, partner_slug: partnerSlug, environment, from: sinceCopy?.names.at(0) ?? null },
})

const CARRIED = 'carried over from the database that was replaced'

async function carry(store: Store, stop: Stop, audit: AuditEntry): Promise<void> {
  const { kind, partnerSlug, subject, endsAt } = stop
  if (kind === 'partner_disabled')
    await store.changePartner(partnerSlug, (now, at) => setPartnerStatus(now, 'disabled', at), audit)
  if (kind === 'partner_held')
    await store.changePartner(partnerSlug, (now, at) => setHeld(now, true, at), audit)
  if (kind === 'key_ended')
    await store.changeKey(
      subject,
      (key, time) => ({
        key:
          endsAt === null
            ? revoke(key, time)
            : { ...key, expiresAt: key.expiresAt === null ? endsAt : earlier(key.expiresAt, endsAt) },
        successor: null,
      }),
      audit,
    )
  if (kind === 'execution_cancelled')
    await unless('execution_cancelled', () =>
      store.cancelExecution(subject, (facts, now) => cancelByHand(facts, CARRIED, now), audit),
    )
  const tenant = await tenantOf(store, stop)
  if (!tenant) return
  if (kind === 'user_disabled')
    await store.changeUser(tenant, subject, (user, now) => setUserStatus(user, 'disabled', now))
  if (kind.startsWith('plan_')) await carryToPlan(store, tenant, stop)
}

/** Only what stops: the terms stay as they were in the copy. */
async function carryToPlan(
  store: Store,
  tenant: Tenant,
  { kind, subject, partnerUserId }: Stop,
): Promise<void> {
  const ids = { partnerUserId: partnerUserId ?? '', partnerPlanId: subject }
  // A plan of a user who is disabled fires nothing.
  await unless('user_not_linked', () =>
    store.changePlan(tenant, ids, (facts, now) => {
      if (!facts.plan) throw new Error(`plan ${subject} has gone`)
      const { amount, frequency } = facts.plan
      const change =
        kind === 'plan_untimed'
          ? { smartTimingEnabled: false }
          : { status: kind === 'plan_cancelled' ? ('cancelled' as const) : ('paused' as const) }
      return writePlan(facts, { ...ids, amount, frequency, ...change }, now)
    }),
  )
}

async function unless(code: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof Problem && error.code === code)) throw error
  }
}
