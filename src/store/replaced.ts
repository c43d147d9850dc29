// What a replaced database has and the copy in its place lacks, and what is carried over into the copy before it has
// its name: what was stopped since the copy was made, erasures and invoices. Everything else that happened since is
// found with `audit` and with an export of the replaced database.

import type { Issued } from '../core/invoice.ts'
import { revoke } from '../core/key.ts'
import { type Environment, setHeld, setPartnerStatus, type Tenant } from '../core/partner.ts'
import { writePlan } from '../core/plan.ts'
import { Problem } from '../core/problem.ts'
import { earlier, type Instant } from '../core/time.ts'
import { setUserStatus } from '../core/user.ts'
import { type Erasure, latestErasures } from './erasures.ts'
import { issuedOf } from './shared/invoices.ts'
import type { AuditEntry, ErasedUser, Store } from './store.ts'
import { hasPersonal, type RowOf } from './tables.ts'

const STOP_KINDS = [
  'partner_disabled',
  'partner_held',
  'key_ended',
  'user_disabled',
  'plan_cancelled',
  'plan_paused',
] as const
type StopKind = (typeof STOP_KINDS)[number]

/** Something that was stopped since the copy was made. Null where it is about a partner as a whole. */
export type Stop = {
  kind: StopKind
  partnerSlug: string
  environment: Environment | null
  /** What was stopped: a partner, a key, a user or a plan. */
  subject: string
  /** Of a plan. */
  partnerUserId: string | null
  /** When a key ended, or will. */
  endsAt: Instant | null
}

/** An invoice or a credit note that the copy knows nothing of, and that its reader has. */
export type UnknownInvoice = Issued & { series: string; position: number }

export type SinceCopy = {
  /** The names under which the replaced databases are kept, the latest first. */
  names: readonly string[]
  stops: Stop[]
  /** Users whose data is gone there and still in the copy. */
  erased: ErasedUser[]
  /** In the order of their numbers. */
  issued: UnknownInvoice[]
  /** What was not read, and why. */
  unread: string[]
}

/** Asks the copy, with the replaced database as `old`. Returns the rows that could be read, and why not all. */
export type AskBoth = (sql: string) => Promise<{ rows: Record<string, unknown>[]; failure: string | null }>

// The two are of one lineage, but are matched by the names that partners know: those never change.
const IN_COPY = `join old.tenants ot on ot.tenant_id = o.tenant_id
  join tenants t on t.partner_slug = ot.partner_slug and t.environment = ot.environment`

const planStop = (condition: string): string =>
  `select t.partner_slug, t.environment, o.partner_plan_id as subject, u.partner_user_id
   from old.plans o ${IN_COPY}
     join plans n on n.tenant_id = t.tenant_id and n.partner_plan_id = o.partner_plan_id
     join users u on u.user_id = n.user_id
   where ${condition} order by o.plan_id`
const userStop = (condition: string, more = ''): string =>
  `select t.partner_slug, t.environment, o.partner_user_id as subject${more}
   from old.users o ${IN_COPY} join users n on n.tenant_id = t.tenant_id and n.partner_user_id = o.partner_user_id
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
  user_disabled: userStop(`o.status = 'disabled' and n.status <> 'disabled'`),
  plan_cancelled: planStop(`o.status = 'cancelled' and n.status <> 'cancelled'`),
  plan_paused: planStop(`o.status = 'paused' and n.status = 'active'`),
}

// Users erased in the old database whose data the copy still has. Times are not compared: a clock may go back.
const ERASED = userStop(
  `o.erased_at is not null and o.email is null and n.erased_at is distinct from o.erased_at and ${hasPersonal('n')}`,
  ', o.erased_at',
)
const ISSUED = `select o.* from old.invoices o where not exists (select 1 from invoices n where n.number = o.number)
  order by o.series, o.position`
/** The error of a version without invoices. */
const IS_NO_TABLE = /no such table|does not exist/

/** Compares the replaced databases with the copy, each under its name, the latest first. */
export async function readReplaced(replaced: readonly { name: string; ask: AskBoth }[]): Promise<SinceCopy> {
  // The same stop may be in several of them: each began as a copy of a part of the one before.
  const stops = new Map<string, Stop>()
  const erased = new Map<string, ErasedUser>()
  const issued = new Map<string, UnknownInvoice>()
  const unread: string[] = []
  for (const { name, ask } of replaced) {
    const failures = new Map<string, string[]>()
    const rowsOf = async (what: string, sql: string): Promise<Record<string, unknown>[]> => {
      const { rows, failure } = await ask(sql)
      if (failure !== null && !(sql === ISSUED && IS_NO_TABLE.test(failure)))
        failures.set(failure, [...(failures.get(failure) ?? []), what])
      return rows
    }
    for (const kind of STOP_KINDS)
      for (const row of await rowsOf(kind, STOPS[kind])) addTo(stops, stopOf(kind, row))
    for (const { partner_slug, environment, subject, erased_at } of await rowsOf('erased users', ERASED))
      addTo(erased, {
        partnerSlug: String(partner_slug),
        environment: String(environment) as Environment,
        partnerUserId: String(subject),
        erasedAt: Number(erased_at) as Instant,
      })
    for (const row of await rowsOf('invoices', ISSUED)) {
      const invoice = row as RowOf<'invoices'>
      const one = { ...issuedOf(invoice), series: invoice.series, position: Number(invoice.position) }
      if (!issued.has(one.number)) issued.set(one.number, one)
    }
    for (const [failure, what] of failures) unread.push(`${what.join(', ')} of ${name} (${failure})`)
  }
  return {
    names: replaced.map(({ name }) => name),
    stops: [...stops.values()].sort((a, b) => STOP_KINDS.indexOf(a.kind) - STOP_KINDS.indexOf(b.kind)),
    erased: [...erased.values()],
    issued: [...issued.values()].sort((a, b) =>
      a.series === b.series ? a.position - b.position : a.series < b.series ? -1 : 1,
    ),
    unread,
  }
}

function addTo<T extends object>(known: Map<string, T>, one: T): void {
  const key = JSON.stringify(Object.values(one).slice(0, 4))
  if (!known.has(key)) known.set(key, one)
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

// What is done to a copy before it has its name, and so before anything can fire.

type Mending = {
  /** What is remembered of erasures. */
  erasures: readonly Erasure[]
  /** The entry of the restore itself, whose author all others have. */
  audit: AuditEntry
}
export type Mended = {
  erasedAgain: number
  carried: Stop[]
  /** The numbers of what was issued since the copy, and is in it now. */
  kept: ReadonlySet<string>
}

/** Writes the entry of the restore, then makes its changes, each with an entry. Safe to repeat. */
export async function mend(
  store: Store,
  sinceCopy: SinceCopy | null,
  { erasures, audit }: Mending,
): Promise<Mended> {
  const { stops = [], erased: replaced = [] } = sinceCopy ?? {}
  const entryOf = (partnerUserId: string, { partnerSlug, environment }: Tenant): AuditEntry => ({
    ...audit,
    action: 'user.erase',
    subject: partnerUserId,
    detail: { partner_slug: partnerSlug, environment, again: true },
  })
  await store.addAuditEntry(audit)
  const remembered = latestErasures(erasures)
  const erasedAgain = await store.eraseAgain({ remembered, replaced }, entryOf)
  for (const stop of stops) {
    const entry = entryFor(stop, sinceCopy, audit)
    await carry(store, stop, entry)
    // A stop that is made by a partner's call adds no entry of its own.
    if (!OWN_ENTRY.has(stop.kind)) await store.addAuditEntry(entry)
  }
  return { erasedAgain, carried: stops, kept: await keepAll(store, sinceCopy, audit) }
}

/** A number that was sent belongs to its invoice: given again, it would name two invoices. */
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

const OWN_ENTRY: ReadonlySet<StopKind> = new Set(['partner_disabled', 'partner_held', 'key_ended'])

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

async function carry(store: Store, stop: Stop, audit: AuditEntry): Promise<void> {
  const { kind, partnerSlug, environment, subject, endsAt } = stop
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
  const tenant = environment === null ? null : await store.findTenant(partnerSlug, environment)
  if (!tenant) return
  if (kind === 'user_disabled')
    await store.changeUser(tenant, subject, (user, now) => setUserStatus(user, 'disabled', now))
  if (kind === 'plan_cancelled') await stopPlan(store, tenant, stop, 'cancelled')
  if (kind === 'plan_paused') await stopPlan(store, tenant, stop, 'paused')
}

/** Its terms stay as they were in the copy. */
async function stopPlan(
  store: Store,
  tenant: Tenant,
  { subject, partnerUserId }: Stop,
  status: 'cancelled' | 'paused',
): Promise<void> {
  const ids = { partnerUserId: partnerUserId ?? '', partnerPlanId: subject }
  try {
    await store.changePlan(tenant, ids, (facts, now) => {
      if (!facts.plan) throw new Error(`plan ${subject} has gone`)
      const { amount, frequency } = facts.plan
      return writePlan(facts, { ...ids, amount, frequency, status }, now)
    })
  } catch (error) {
    // A plan of a user who is disabled fires nothing.
    if (!(error instanceof Problem && error.code === 'user_not_linked')) throw error
  }
}
