// A partner of services that are killed, stopped or cut off: it confirms some purchases twice on purpose, changes its
// mind about plans, and remembers every answer; and what the ledger must have of its answers.

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { MINUTE_MS } from '../../src/core/time.ts'

// Purchases, and reports of them.

export type Due = {
  execution_id: string
  idempotency_key: string
  amount_usd: string
  lease_expires_at: string
  delivered_count: number
}
type Report = { partner_order_id: string; status: 'filled' | 'partial' | 'failed'; usd_amount?: string }

const LEASE_MS = 5 * MINUTE_MS

export const CONSENT = {
  consent_accepted: true,
  consent_version: 'v1',
  consent_timestamp: '2026-01-01T00:00:00Z',
}

/** A random report: mostly the whole amount, sometimes a part of it or nothing. */
export function anyReport(random: () => number, partner_order_id: string, amount: string): Report {
  const kind = random()
  if (kind < 0.1) return { partner_order_id, status: 'failed' }
  const part = { partner_order_id, btc_amount: '0.00010000', execution_price: '60000.00' }
  if (kind < 0.2) return { ...part, status: 'partial', usd_amount: '0.50' }
  return { ...part, status: 'filled', usd_amount: amount }
}

/** Daily or weekly, of a round amount or of one that is hard to divide. */
export const anyTerms = (random: () => number) => ({
  frequency: random() < 0.7 ? 'daily' : 'weekly',
  amount_usd: random() < 0.5 ? '60.00' : '17.77',
})

// The partner.

/** The partner's knowledge of an instruction. */
export type Instruction = {
  id: string
  key: string
  /** Each delivery by its number, with the end of its lease. */
  leases: Map<number, number>
  /** The purchase, null while there is none. */
  report: Report | null
  /** The answer to the report: recorded, refused because the plan had been cancelled, or none yet. */
  outcome: 'recorded' | 'late' | null
  /** When the first answer came, on the clock of `performance`. */
  settledAt: number
}
/** Unknown while a change has no answer. */
type Status = 'active' | 'paused' | 'cancelled' | 'unknown'

export type Partner = {
  environment: 'live' | 'test'
  calls: Calls
  users: Set<string>
  /** By name: the status of the last answer. */
  plans: Map<string, Status>
  instructions: Map<string, Instruction>
  /** Instructions with news since this was last emptied. */
  touched: Set<Instruction>
  /** Polls whose outcome is unknown: when they began and ended, on the wall clock. */
  lostPolls: { from: number; to: number }[]
  counts: Record<'deliveries' | 'confirmed' | 'twice' | 'contested' | 'late', number>
  /** Links a user and sends some plans. */
  enrol: (plans: number) => Promise<void>
  /** A random step of its work. */
  step: () => Promise<void>
  /** Reports again what was reported without an answer. */
  resend: () => Promise<void>
  pollAndBuy: (all: boolean) => Promise<number>
}

type Working = {
  calls: Calls
  random: () => number
  /** The wall clock. */
  clock: () => number
  /** The number of plans at which it adds no more. */
  plansMax: number
}

const CANCELLED = /cancelled/

export function createPartner(
  environment: Partner['environment'],
  { calls, random, clock, plansMax }: Working,
): Partner {
  const partner: Partner = {
    environment,
    calls,
    users: new Set(),
    plans: new Map(),
    instructions: new Map(),
    touched: new Set(),
    lostPolls: [],
    counts: { deliveries: 0, confirmed: 0, twice: 0, contested: 0, late: 0 },
    enrol,
    step,
    resend,
    pollAndBuy,
  }
  const owners = new Map<string, string>()
  /** The instruction for which each idempotency key stands. */
  const keys = new Map<string, string>()
  /** Plans whose cancellation was sent, whether or not it was answered. */
  const cancelling = new Set<string>()
  /** Delivered, and left unconfirmed. */
  const left = new Set<Instruction>()
  let names = 0

  async function ok(method: string, path: string, body?: object): Promise<unknown> {
    const { status, body: said } = await calls.settled(method, path, body)
    assert.equal(status, 200, `${method} ${path}: ${JSON.stringify(said)}`)
    return said
  }

  async function enrol(plans: number): Promise<void> {
    const user = `user-${names++}`
    await ok('POST', '/users', { partner_user_id: user, ...CONSENT })
    partner.users.add(user)
    const adding = Array.from({ length: plans }, async (_, i) => {
      const plan = `${user}-plan-${i}`
      owners.set(plan, user)
      await ok('POST', '/plans', { partner_user_id: user, partner_plan_id: plan, ...anyTerms(random) })
      partner.plans.set(plan, 'active')
    })
    await Promise.all(adding)
  }

  async function step(): Promise<void> {
    const kind = random()
    if (kind < 0.45) await pollAndBuy(false)
    else if (kind < 0.6 && partner.plans.size < plansMax) await enrol(3)
    else if (kind < 0.75) await changePlan()
    else if (kind < 0.85) await buyLeft()
    else if (kind < 0.95) await confirmAgain()
    else await ok('GET', '/me')
  }

  async function changePlan(): Promise<void> {
    // A plan with something open has more that can go wrong.
    const open = anyOf([...left])
    const plan =
      open && random() < 0.5 ? planOf(open.key) : anyOf([...partner.plans.keys()].slice(-PLANS_CHANGED))
    const status = plan === undefined ? undefined : partner.plans.get(plan)
    if (plan === undefined || status === 'cancelled' || status === 'unknown') return
    partner.plans.set(plan, 'unknown')
    const next: Status = random() < 0.3 ? 'cancelled' : status === 'active' ? 'paused' : 'active'
    if (next === 'cancelled') cancelling.add(plan)
    const { frequency, amount_usd } = await seenOf(plan)
    const body = { partner_user_id: owners.get(plan), partner_plan_id: plan, frequency, amount_usd }
    await ok('POST', '/plans', { ...body, status: next })
    partner.plans.set(plan, next)
  }

  /** Reports the purchases left until now; their plans may have been cancelled meanwhile. */
  async function buyLeft(): Promise<void> {
    const one = anyOf([...left])
    if (!one) return
    one.report ??= anyReport(random, `order ${one.key}`, LEFT_AMOUNT)
    await confirm(one)
  }

  async function resend(): Promise<void> {
    await Promise.all([...left].filter(({ report }) => report).map(confirm))
  }

  const seenOf = async (plan: string) =>
    (await ok('GET', `/plans/${encodeURIComponent(plan)}`)) as { frequency: string; amount_usd: string }

  /** An old report gets its old answer again. */
  async function confirmAgain(): Promise<void> {
    const one = anyOf([...partner.instructions.values()])
    if (!one?.report || one.outcome !== 'recorded') return
    const again = await calls.settled('POST', `/executions/${one.id}/confirm`, one.report)
    assert.equal(again.status, 200, JSON.stringify(again.body))
    assert.equal((again.body as { replayed?: boolean }).replayed, true, `${one.id} was answered before`)
  }

  /** Polls once; answers how many were delivered. Buys all of them, or leaves some until their lease is over. */
  async function pollAndBuy(all: boolean): Promise<number> {
    const from = clock()
    const answer = await calls.once('GET', '/executions/due')
    if (!answer) {
      partner.lostPolls.push({ from, to: clock() })
      return 0
    }
    assert.equal(answer.status, 200, JSON.stringify(answer.body))
    const due = answer.body as Due[]
    const delivered = due.map((one) => noteDelivery(one, answer.startedAt))
    const bought = delivered.filter(() => all || random() > 0.08)
    for (const { instruction } of delivered) left.add(instruction)
    await Promise.all(bought.map((one, i) => buy(one.instruction, one.amount, bought[i + 1]?.instruction)))
    return due.length
  }

  function noteDelivery(now: Due, askedAt: number): { instruction: Instruction; amount: string } {
    const { execution_id: id, idempotency_key: key, delivered_count, lease_expires_at } = now
    const known = partner.instructions.get(id)
    const one = known ?? { id, key, leases: new Map(), report: null, outcome: null, settledAt: Infinity }
    assert.equal(keys.get(key) ?? id, id, `${key} is one purchase`)
    keys.set(key, id)
    partner.instructions.set(id, one)
    assert.equal(one.key, key, `${id} keeps its idempotency key`)
    assert.ok(askedAt < one.settledAt, `${id} is delivered after its report was answered`)
    assert.ok(!one.leases.has(delivered_count), `delivery ${delivered_count} of ${id} is handed out twice`)
    one.leases.set(delivered_count, Date.parse(lease_expires_at))
    partner.touched.add(one)
    partner.counts.deliveries += 1
    return { instruction: one, amount: now.amount_usd }
  }

  /** Buys once for each key, and reports it: some twice at once, some while another order claims the same execution. */
  async function buy(one: Instruction, amount: string, other: Instruction | undefined): Promise<void> {
    one.report ??= anyReport(random, `order ${one.key}`, amount)
    const way = random()
    if (way < 0.15) {
      partner.counts.twice += 1
      await Promise.all([confirm(one), confirm(one)])
    } else if (way < 0.22 && other) await contest(one, other)
    else await confirm(one)
  }

  /** Reports the order of one instruction for another one too: the second report must conflict with the first. */
  async function contest(one: Instruction, other: Instruction): Promise<void> {
    partner.counts.contested += 1
    await confirm(one)
    if (one.outcome !== 'recorded' || !one.report) return
    const wrong = await calls.settled('POST', `/executions/${other.id}/confirm`, one.report)
    assert.equal(wrong.status, 409, JSON.stringify(wrong.body))
  }

  async function confirm(one: Instruction): Promise<void> {
    const { id, report } = one
    if (!report) return
    const { status, body, endedAt } = await calls.settled('POST', `/executions/${id}/confirm`, report)
    const said = JSON.stringify(body)
    const isLate = status === 409 && CANCELLED.test(said) && cancelling.has(planOf(one.key))
    assert.ok(status === 200 || isLate, `${id}: ${status} ${said}`)
    const outcome = isLate ? 'late' : 'recorded'
    assert.equal(one.outcome ?? outcome, outcome, `${id} is answered the same again`)
    if (one.outcome === null) partner.counts[isLate ? 'late' : 'confirmed'] += 1
    one.outcome = outcome
    one.settledAt = Math.min(one.settledAt, endedAt)
    left.delete(one)
    partner.touched.add(one)
  }

  const anyOf = <T>(of: readonly T[]): T | undefined => of[Math.floor(random() * of.length)]

  return partner
}

/** The least amount of an instruction. */
const LEFT_AMOUNT = '1.00'

/** Changes are made to one of the most recent plans, since these have something open. */
const PLANS_CHANGED = 60

const planOf = (key: string): string => key.split(':')[0] ?? ''

/** What partners were answered, in numbers. */
export function answersTo(partners: readonly Partner[]): Record<string, number> {
  const sum = (count: (partner: Partner) => number): number =>
    partners.reduce((total, partner) => total + count(partner), 0)
  return {
    calls: sum(({ calls }) => calls.counts.answered),
    'calls without an answer': sum(({ calls }) => calls.counts.unanswered),
    'calls put off': sum(({ calls }) => calls.counts.putOff),
    users: sum(({ users }) => users.size),
    plans: sum(({ plans }) => plans.size),
    deliveries: sum(({ counts }) => counts.deliveries),
    confirmations: sum(({ counts }) => counts.confirmed),
    'of them sent twice at once': sum(({ counts }) => counts.twice),
    'order ids claimed twice': sum(({ counts }) => counts.contested),
    'late reports': sum(({ counts }) => counts.late),
  }
}

// Calls to any of several services: a call without an answer, or deferred, is repeated elsewhere until it is settled.

/** A service, as its callers know it. */
export type Callee = {
  name: string
  url: string
  /** The last time a test killed or stopped it, on the clock of `performance`. */
  disturbedAt: number
  /** Whether nothing will start it again while calls are made. */
  isGone?: boolean
}

/** A call that nobody is left to answer. */
export class Unanswered extends Error {}

type Answer = { status: number; body: unknown; startedAt: number; endedAt: number }

export type Calls = {
  /** A single attempt: null when its outcome is unknown, because there was no answer or it was deferred. */
  once: (method: string, path: string, body?: object, at?: Callee) => Promise<Answer | null>
  /** Repeats a call until it is answered. Throws when that takes too long, and when every service is gone. */
  settled: (method: string, path: string, body?: object, at?: Callee) => Promise<Answer>
  counts: Record<'answered' | 'unanswered' | 'putOff', number>
}

/** A call that takes longer hangs: the service's own limits are shorter. */
const CALL_MAX_MS = 80_000
const SETTLED_MAX_MS = 120_000
const AGAIN_MS = 60
/** A connection that was closed while idle may meet a call on its way. */
const DISTURBED_MS = 2_000

export function createCalls(key: string, hosts: readonly Callee[], random: () => number): Calls {
  const counts: Calls['counts'] = { answered: 0, unanswered: 0, putOff: 0 }
  const anyHost = (): Callee => hosts[Math.floor(random() * hosts.length)] as Callee

  const once: Calls['once'] = async (method, path, body, at = anyHost()) => {
    const startedAt = performance.now()
    let answer: Response
    let text: string
    try {
      answer = await fetch(`${at.url}/partner/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
        signal: AbortSignal.timeout(CALL_MAX_MS),
        ...(body && { body: JSON.stringify(body) }),
      })
      text = await answer.text()
    } catch (error) {
      const what = `${method} ${path} of ${at.name}`
      assert.notEqual((error as Error).name, 'TimeoutError', `${what}: no answer within ${CALL_MAX_MS} ms`)
      const isExplained = at.disturbedAt > startedAt - DISTURBED_MS
      assert.ok(isExplained, `${what}: dropped by a service that lives: ${(error as Error).cause ?? error}`)
      counts.unanswered += 1
      return null
    }
    assert.notEqual(answer.status, 500, `${method} ${path} of ${at.name}: ${text}`)
    if (answer.status === 503) {
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/, text)
      counts.putOff += 1
      return null
    }
    counts.answered += 1
    return { status: answer.status, body: JSON.parse(text), startedAt, endedAt: performance.now() }
  }

  const settled: Calls['settled'] = async (method, path, body, at) => {
    const from = performance.now()
    for (let host = at; ; host = anyHost()) {
      const answer = await once(method, path, body, host)
      if (answer) return answer
      if (hosts.every(({ isGone }) => isGone)) throw new Unanswered(`${method} ${path}`)
      const waited = performance.now() - from
      assert.ok(waited < SETTLED_MAX_MS, `${method} ${path}: no outcome within ${Math.round(waited)} ms`)
      await pause(AGAIN_MS)
    }
  }

  return { once, settled, counts }
}

// Invariants of the ledger whoever wrote to it: read by this file's own queries, past the program, on either store.

/** Runs a query in SQL that both stores accept. */
export type Look = <Row extends object>(sql: string) => Promise<Row[]>

/** Whole numbers are text on a server. */
type Whole = number | string
type Row = {
  execution_id: string
  status: string
  delivered_count: Whole
  lease: Whole | null
  trades: Whole
  order_id: string | null
  trade_status: string | null
  usd: Whole | null
  late: Whole
}

const ROWS = `
  select e.execution_id, e.status, e.delivered_count, e.lease_expires_at as lease,
    (select count(*) from trades t where t.execution_id = e.execution_id) as trades,
    t.partner_order_id as order_id, t.status as trade_status, t.usd_amount as usd,
    (select count(*) from late_reports l where l.execution_id = e.execution_id) as late
  from executions e left join trades t using (execution_id)`
const inTenant = (environment: string): string =>
  `tenant_id = (select tenant_id from tenants where partner_slug = 'acme' and environment = '${environment}')`

/** Asserts that every write answered since the last time is stored, once, as it was answered. */
export async function assertAnswered(look: Look, partner: Partner): Promise<void> {
  const touched = [...partner.touched]
  partner.touched.clear()
  if (touched.length === 0) return
  const ids = touched.map(({ id }) => `'${id}'`)
  const rows = await look<Row>(`${ROWS} where e.execution_id in (${ids})`)
  const found = new Map(rows.map((row) => [row.execution_id, row]))
  for (const one of touched) assertInstruction(one, found.get(one.id))
}

function assertInstruction({ id, leases, report, outcome }: Instruction, row: Row | undefined): void {
  const last = Math.max(...leases.keys())
  assert.ok(row && Number(row.delivered_count) >= last, `the delivery ${last} of ${id} is there`)
  if (row.status === 'sent' && Number(row.delivered_count) === last)
    assert.equal(Number(row.lease), leases.get(last), `the lease of ${id} is there`)
  const byNumber = [...leases].sort(([a], [b]) => a - b)
  for (const [i, [number, lease]] of byNumber.entries()) {
    const before = byNumber[i - 1]?.[1] ?? 0
    assert.ok(lease - LEASE_MS >= before, `delivery ${number} of ${id} is made inside the lease before it`)
  }
  if (outcome === 'recorded') {
    assert.deepEqual(
      [Number(row.trades), row.order_id, row.trade_status, row.status],
      [1, report?.partner_order_id, report?.status, report?.status],
      `the report on ${id} is there`,
    )
    assert.equal(row.usd && Number(row.usd) / UNIT, report?.usd_amount ? Number(report.usd_amount) : null)
  }
  if (outcome === 'late') {
    assert.deepEqual([Number(row.trades), row.status], [0, 'cancelled'], `${id} stays cancelled`)
    if (report?.status !== 'failed') assert.ok(Number(row.late) >= 1, `the late report on ${id} is kept`)
  }
}

const UNIT = 1e8

/** How long after an abandoned poll its service, or the server, may still finish it. */
const STRAGGLE_MS = 15_000

/** Asserts that all data of a partner match the answers it got, and that nothing else is stored. */
export async function assertWhole(look: Look, partner: Partner): Promise<void> {
  const { environment, instructions, users, plans } = partner
  const ours = inTenant(environment)
  const names = await look<{ name: string }>(`select partner_user_id as name from users where ${ours}`)
  assert.deepEqual([...users.difference(new Set(names.map(({ name }) => name)))], [], 'users are there')
  const found = await look<{ name: string; status: string }>(
    `select partner_plan_id as name, status from plans where ${ours}`,
  )
  const statuses = new Map(found.map(({ name, status }) => [name, status]))
  for (const [plan, status] of plans) {
    assert.ok(statuses.has(plan), `${plan} is there`)
    if (status !== 'unknown') assert.equal(statuses.get(plan), status, `${plan} is as it was answered`)
  }
  const rows = await look<Row>(`${ROWS} where e.${ours}`)
  for (const row of rows) {
    const one = instructions.get(row.execution_id)
    if (one) assertInstruction(one, row)
    assertAccounted(row, one, partner)
  }
  const there = new Set(rows.map(({ execution_id }) => execution_id))
  assert.deepEqual([...new Set(instructions.keys()).difference(there)], [], 'what was delivered is there')
}

/** Each delivery was answered, or belongs to a poll whose answer was lost; each trade was reported. */
function assertAccounted(row: Row, one: Instruction | undefined, { environment, lostPolls }: Partner): void {
  const { execution_id: id } = row
  const delivered = Number(row.delivered_count)
  const unseen = delivered - (one?.leases.size ?? 0)
  assert.ok(unseen >= 0 && unseen <= lostPolls.length, `${id}: ${unseen} deliveries that nobody was answered`)
  // A sandbox has its own time, and the lease of a cancelled or confirmed execution proves nothing.
  if (environment === 'live' && row.status === 'sent' && one?.leases.has(delivered) !== true) {
    const at = Number(row.lease) - LEASE_MS
    const isLost = lostPolls.some(({ from, to }) => at >= from - 1 && at <= to + STRAGGLE_MS)
    assert.ok(isLost, `${id} was delivered at ${at}, and no poll of that time is missing its answer`)
  }
  if (row.order_id !== null) assert.equal(row.order_id, one?.report?.partner_order_id, `${id} was reported`)
}

/** Queries that must never return a row. */
const NEVER: Record<string, string> = {
  'a tranche fired twice': `select plan_id, window_start, tranche_index from executions
    group by plan_id, window_start, tranche_index having count(*) > 1`,
  'an order on record twice': `select tenant_id, partner_order_id from trades
    group by tenant_id, partner_order_id having count(*) > 1`,
  'two trades of one execution': `select execution_id from trades group by execution_id having count(*) > 1`,
  'a window above its budget': `select window_id, budget, reserved, spent, released from windows
    where reserved + spent + released > budget`,
  'a window that does not reserve what is open': `select w.window_id, w.reserved, sum(e.amount_usd)
    from windows w left join executions e on e.window_id = w.window_id and e.status in ('pending', 'sent')
    group by w.window_id having w.reserved <> coalesce(sum(e.amount_usd), 0)`,
  'a window that has not spent what was bought': `select w.window_id, w.spent, sum(t.usd_amount)
    from windows w left join executions e using (window_id) left join trades t using (execution_id)
    group by w.window_id having w.spent + w.excess <> coalesce(sum(t.usd_amount), 0)`,
  'a plan with two present windows': `select plan_id from windows where closed_at is null
    group by plan_id having count(*) > 1`,
  'a trade dated behind a later one': `select a.execution_id from trades a join executions e using (execution_id)
    where a.recorded_at < e.created_at`,
}

export async function assertRules(look: Look): Promise<void> {
  for (const [what, sql] of Object.entries(NEVER)) assert.deepEqual(await look(sql), [], what)
}
