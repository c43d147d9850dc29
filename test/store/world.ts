// A store with two partners and the service's verbs on top: the base of the store's own tests.

import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { type Confirmation, confirm, type Fill, type Report } from '../../src/core/confirmation.ts'
import { adjust } from '../../src/core/corrections/adjustment.ts'
import { acceptLate } from '../../src/core/corrections/late-fill.ts'
import { deliver, type Execution } from '../../src/core/execution.ts'
import { btc, CENT, type Price, price, type Usd, usd } from '../../src/core/money.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { type Plan, type PlanRequest, writePlan } from '../../src/core/plan.ts'
import { type Instant, plus } from '../../src/core/time.ts'
import { linkUser, setUserStatus, type UserRequest, type UserStatus } from '../../src/core/user.ts'
import { type Attempt, testOf, type WakeUp, type Webhook } from '../../src/core/webhook.ts'
import { type PassResult, runPass } from '../../src/engine/pass.ts'
import { type Machine, machineAt } from '../../src/machine.ts'
import type { AuditEntry, ListedExecution, ListedPlan, NewKey, Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'

export const T0 = Date.UTC(2026, 0, 5) as Instant
export const AUDIT: AuditEntry = { osUser: 'test', action: 'test', subject: 'test', detail: {} }
export const noted = () => AUDIT

/**
 * The exports that a store's module needs to run the contract. `place` is a folder of the test's for its data, empty at
 * first.
 */
export type Backend = { open: (place: string, clock: () => Instant) => Promise<Store> }

/** The promises of a store, each with its proof in a world of its own. `backend` is the module that opens its store. */
export type Contract = (test: (promise: string, prove: Proof) => void) => void
type Proof = (world: World, test: { t: TestContext; backend: URL }) => Promise<void>

export type World = {
  store: Store
  machine: Machine
  acme: Tenant
  /** The live environment of the same partner. */
  acmeLive: Tenant
  /** Another partner. */
  bolt: Tenant
  now: () => Instant
  setClock: (now: Instant) => void
  advance: (ms: number) => void
  place: string
  /** Another connection to the same data, as of another process. */
  connect: () => Promise<Store>
  /** A world like this one at its beginning, with data of its own. */
  another: () => Promise<World>
}

/** Every store of it is closed when the test ends. */
export async function openWorld(t: Pick<TestContext, 'after'>, open: Backend['open']): Promise<World> {
  const { machine, setClock } = machineAt(T0)
  const place = temporaryFolder(t)
  const connect = async () => {
    const store = await open(place, machine.clock)
    t.after(() => store.close())
    return store
  }
  const another = () => openWorld(t, open)
  const store = await connect()
  const clock = clockOf(machine, setClock)
  return { ...(await populate(store)), store, machine, setClock, ...clock, place, connect, another }
}

const clockOf = ({ clock }: Machine, setClock: (now: Instant) => void) => ({
  now: clock,
  advance: (ms: number) => setClock(plus(clock(), ms)),
})

/** Adds the partners acme and bolt. */
export async function populate(store: Store): Promise<Pick<World, 'acme' | 'acmeLive' | 'bolt'>> {
  for (const slug of ['acme', 'bolt']) await store.addPartner({ partnerSlug: slug, name: slug }, AUDIT)
  const tenant = async (slug: string, environment: 'test' | 'live'): Promise<Tenant> => {
    const found = await store.findTenant(slug, environment)
    if (!found) throw new Error(`no tenant ${slug} ${environment}`)
    return found
  }
  return {
    acme: await tenant('acme', 'test'),
    acmeLive: await tenant('acme', 'live'),
    bolt: await tenant('bolt', 'test'),
  }
}

/** Links a user, with a consent unless the request has another one. */
export const linkWith = (
  store: Store,
  tenant: Tenant,
  request: Partial<UserRequest> & { partnerUserId: string },
) =>
  store.changeUser(tenant, request.partnerUserId, (seen, now) =>
    linkUser(seen, { consentAccepted: true, consentVersion: 'v1', consentTimestamp: T0, ...request }, now),
  )

export const link = (store: Store, tenant: Tenant, partnerUserId = 'u1', consentVersion = 'v1') =>
  linkWith(store, tenant, { partnerUserId, consentVersion })

/** Raises the minimum tranche of acme by a cent: its old value is read inside the decision. */
export const raise = (store: Store, meanwhile = () => {}) =>
  store.changePartner(
    'acme',
    (seen) => {
      meanwhile()
      return { ...seen, minTranche: (seen.minTranche + CENT) as Usd }
    },
    AUDIT,
  )

export const setUser = (store: Store, tenant: Tenant, partnerUserId: string, status: UserStatus) =>
  store.changeUser(tenant, partnerUserId, (seen, now) => setUserStatus(seen, status, now))

export const PLAN: PlanRequest = {
  partnerUserId: 'u1',
  partnerPlanId: 'p1',
  amount: usd('60.00'),
  frequency: 'daily',
}

export function sendPlan(
  store: Store,
  tenant: Tenant,
  request: Partial<PlanRequest> = {},
): Promise<Omit<Plan, 'planId'>> {
  const plan = { ...PLAN, ...request }
  return store.changePlan(tenant, plan, (seen, now) => writePlan(seen, plan, now))
}

/** Links the user of a plan, and sends the plan. */
export async function enrol(store: Store, tenant: Tenant, request: Partial<PlanRequest> = {}): Promise<void> {
  await link(store, tenant, request.partnerUserId)
  await sendPlan(store, tenant, request)
}

/** Links a user, and sends plans of these names. */
export async function enrolAll(
  store: Store,
  tenant: Tenant,
  partnerPlanIds: readonly string[],
): Promise<void> {
  await link(store, tenant)
  for (const partnerPlanId of partnerPlanIds) await sendPlan(store, tenant, { partnerPlanId })
}

export const plansNamed = (count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, i) => `p${i + from}`)

export async function tick(
  { store, machine }: Pick<World, 'store' | 'machine'>,
  usdPrice?: string | Price,
): Promise<PassResult> {
  const at = typeof usdPrice === 'string' ? price(usdPrice) : usdPrice
  const seen = at === undefined ? null : { price: at, source: 'test' }
  const report = await runPass({ store, machine, observe: async () => ({ price: seen, testimony: 'none' }) })
  if (!report) throw new Error('another tick is running')
  return report
}

export const poll = async (store: Store, tenant: Tenant, limit = 500): Promise<Execution[]> =>
  (await store.deliverDue(tenant, limit, deliver)).executions

export const report = (
  store: Store,
  tenant: Tenant,
  executionId: string,
  said: Report,
): Promise<Confirmation> =>
  store.confirmExecution(tenant, { executionId, partnerOrderId: said.partnerOrderId }, (seen, now) =>
    confirm(seen, said, now),
  )

/** Accepts a stored report, as an operator does. */
export const accept = (
  { store }: Pick<World, 'store'>,
  executionId: string,
  reportId: number | null = null,
) => store.acceptLateFill({ executionId, reportId }, acceptLate, noted)

/** Corrects the amount of an execution, as an operator does; the reason names the amount. */
export const adjustTo = ({ store }: World, executionId: string, amount: string) =>
  store.adjustTrade(
    executionId,
    (seen, now) => adjust(seen, { usd: usd(amount), btc: btc('0.0001'), reason: amount }, now),
    noted,
  )

export const PAGE = { after: null, limit: 1_000 }
export const EVERYBODY = { slug: null, environment: null }

const ROWS_MAX = 1_000

/** The rows of a listing, page after page: each begins after the last row of the one before. */
export async function allPages<Row>(read: (after: Row | null) => Promise<readonly Row[]>): Promise<Row[]> {
  const rows: Row[] = []
  for (;;) {
    const page = await read(rows.at(-1) ?? null)
    if (page.length === 0) return rows
    rows.push(...page)
    if (rows.length > ROWS_MAX) throw new Error('the pages do not end')
  }
}

/** The number of entries in the audit log. */
export const audited = async ({ store }: World): Promise<number> => (await store.listAudit(PAGE)).length

/** A fill of so many dollars under an order id of its own. */
export function filled(
  amount: Usd,
  order: string = randomUUID(),
  status: 'filled' | 'partial' = 'filled',
): Fill {
  return {
    status,
    partnerOrderId: order,
    executedAt: null,
    usdAmount: amount,
    btcAmount: btc('0.0001'),
    executionPrice: price('60000'),
    partnerFee: null,
  }
}

export const failed = (order: string = randomUUID()): Report => ({
  status: 'failed',
  partnerOrderId: order,
  executedAt: null,
  failureReason: 'venue is down',
})

export async function allExecutions(store: Store): Promise<ListedExecution[]> {
  return store.listExecutions({ ...EVERYBODY, status: null, stuck: false }, { after: null, limit: 1_000_000 })
}

export const allPlans = (store: Store): Promise<ListedPlan[]> =>
  store.listPlans(EVERYBODY, { after: null, limit: 1_000_000 })

let keys = 0
export function keyFor(tenant: Tenant, { lifetimeMs = null as number | null, sha256 = '' } = {}): NewKey {
  keys += 1
  return {
    keyId: `key_${keys}`,
    tenant,
    sha256: sha256 || String(keys).padStart(64, '0'),
    prefix: `sse_${tenant.environment}_`,
    lastFour: 'abcd',
    label: null,
    lifetimeMs,
  }
}

type Fires = Pick<World, 'store' | 'machine' | 'acme'>

/** A world with a linked user and a daily plan of 60.00, whose first tranche has fired, and is delivered on request. */
export async function firstTranche(world: Fires, { delivered = true } = {}): Promise<Execution> {
  const { store, acme } = world
  await enrol(store, acme)
  await tick(world, '60000')
  const [execution] = delivered ? await poll(store, acme) : await allExecutions(store)
  if (!execution) throw new Error('nothing fired')
  return execution
}

/** A world after its first tranche, and what there is to say of that. */
export const afterFirst = async <W extends Fires>(world: W, options?: { delivered: boolean }) => ({
  ...world,
  ...(await firstTranche(world, options)),
})

/** A property of each, or a list of several. */
export const each = <T>(of: readonly T[] | undefined, ...keys: (keyof T)[]): unknown[] | undefined =>
  of?.map((one) => {
    const values = keys.map((key) => one[key])
    return values.length === 1 ? values[0] : values
  })

export const problem =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof Error && error.name === 'Problem' && (error as Error & { code: string }).code === code

/** A wake-up as it is sent to a webhook. */
export const announced = (tenant: Tenant, webhook: Webhook, count = 1): WakeUp & { webhook: Webhook } => ({
  ...testOf(tenant),
  count,
  webhook,
})

export const UNDELIVERED: Attempt = { statusCode: 500, reason: 'HTTP 500', durationMs: 5 }
