// A partner of many hosts: it works against all of them at once, confirms some purchases twice on purpose, changes its
// mind about plans, and remembers every answer.

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { anyReport, anyTerms, CONSENT, type Due, type Report } from '../purchases.ts'
import type { Host } from './cluster.ts'

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
type Status = 'active' | 'paused' | 'cancelled'

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
    pollAndBuy,
  }
  const owners = new Map<string, string>()
  /** The instruction for which each idempotency key stands. */
  const keys = new Map<string, string>()
  /** Plans whose cancellation was sent, whether or not it was answered. */
  const cancelling = new Set<string>()
  const changing = new Set<string>()
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
    if (plan === undefined || status === 'cancelled' || changing.has(plan)) return
    changing.add(plan)
    const next: Status = random() < 0.3 ? 'cancelled' : status === 'active' ? 'paused' : 'active'
    if (next === 'cancelled') cancelling.add(plan)
    const { frequency, amount_usd } = await seenOf(plan)
    const body = { partner_user_id: owners.get(plan), partner_plan_id: plan, frequency, amount_usd }
    await ok('POST', '/plans', { ...body, status: next })
    partner.plans.set(plan, next)
    changing.delete(plan)
  }

  /** Reports the purchases left until now; their plans may have been cancelled meanwhile. */
  async function buyLeft(): Promise<void> {
    const one = anyOf([...left])
    if (!one) return
    one.report ??= anyReport(random, `order ${one.key}`, LEFT_AMOUNT)
    await confirm(one)
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

// Calls to any of several services: a call without an answer, or deferred, is repeated elsewhere until it is settled.

type Answer = { status: number; body: unknown; startedAt: number; endedAt: number }

type Calls = {
  /** A single attempt: null when its outcome is unknown, because there was no answer or it was deferred. */
  once: (method: string, path: string, body?: object, at?: Host) => Promise<Answer | null>
  /** Repeats a call until it is answered. Throws when that takes too long. */
  settled: (method: string, path: string, body?: object, at?: Host) => Promise<Answer>
  counts: Record<'answered' | 'unanswered' | 'putOff', number>
}

/** A call that takes longer hangs: the service's own limits are shorter. */
const CALL_MAX_MS = 80_000
const SETTLED_MAX_MS = 120_000
const AGAIN_MS = 60
/** A connection that was closed while idle may meet a call on its way. */
const DISTURBED_MS = 2_000

export function createCalls(key: string, hosts: readonly Host[], random: () => number): Calls {
  const counts: Calls['counts'] = { answered: 0, unanswered: 0, putOff: 0 }
  const anyHost = (): Host => hosts[Math.floor(random() * hosts.length)] as Host

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
      const waited = performance.now() - from
      assert.ok(waited < SETTLED_MAX_MS, `${method} ${path}: no outcome within ${Math.round(waited)} ms`)
      await pause(AGAIN_MS)
    }
  }

  return { once, settled, counts }
}
