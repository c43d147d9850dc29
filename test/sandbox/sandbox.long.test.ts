// Sandboxes of any size, whatever is done to them: others are not affected, and nothing is bought before its
// start_date.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import type { Tenant } from '../../src/core/partner.ts'
import { Problem } from '../../src/core/problem.ts'
import { formatInstant, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import {
  assertSound,
  executionsOf,
  LOW_PRICE,
  link,
  PLANS,
  PRICE,
  plan,
  poll,
  setUser,
  succeed,
  windowsOf,
} from '../http/steps.ts'
import { AUDIT, PLAN } from '../support/service.ts'
import { assertSame, type Bench, comparable, everythingOf, startBench } from './bench.ts'

type Step =
  | { kind: 'advance'; hours: number }
  | { kind: 'fire' | 'reset' | 'work-sandbox' | 'bill-sandbox' }
  | { kind: 'pass'; minutes: number; price: boolean }
  | { kind: 'work' | 'bill' }

const SANDBOX: readonly Step['kind'][] = ['advance', 'fire', 'reset', 'work-sandbox', 'bill-sandbox']

const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('advance' as const), hours: fc.integer({ min: 1, max: 120 }) }),
    fc.record({ kind: fc.constantFrom('fire', 'reset', 'work-sandbox', 'bill-sandbox') }),
    fc.record({
      kind: fc.constant('pass' as const),
      minutes: fc.integer({ min: 1, max: 900 }),
      price: fc.boolean(),
    }),
    fc.record({ kind: fc.constantFrom('work', 'bill') }),
  ),
  { minLength: 10, maxLength: 12 },
) as fc.Arbitrary<Step[]>

const MONTHS = ['2026-01', '2026-02', '2026-03']
const OTHERS = [
  ['acme', 'live'],
  ['bolt', 'test'],
  ['bolt', 'live'],
] as const

type World = { bench: Bench; sandbox: Tenant; others: Tenant[]; keys: string[] }

async function build(t: Parameters<typeof startBench>[0]): Promise<World> {
  const bench = await startBench(t)
  const keys = []
  for (const [slug, environment] of OTHERS) keys.push(await bench.issueKey(slug, environment))
  for (const key of [...keys, bench.key]) await enrol(bench, key)
  const others = []
  for (const [slug, environment] of OTHERS) others.push(await bench.tenant(slug, environment))
  return { bench, sandbox: await bench.tenant('acme', 'test'), others, keys }
}

async function enrol(bench: Bench, key: string): Promise<void> {
  await link(bench, 'u1', { key })
  await plan(bench, 'u1', 'daily', {}, { key })
  await plan(bench, 'u1', 'weekly', { frequency: 'weekly', amount_usd: '140.00' }, { key })
}

/** Confirms all due executions, under order ids that are not random. */
async function work(bench: Bench, key: string): Promise<void> {
  for (const executions of (await poll(bench, { key })).values()) {
    for (const { execution_id: id, amount_usd: amount, idempotency_key: order } of executions) {
      const body = { partner_order_id: order, status: 'filled', usd_amount: amount }
      const bought = { btc_amount: '0.001', execution_price: PRICE }
      await succeed(bench, 'POST', `/partner/v1/executions/${id}/confirm`, { ...body, ...bought }, { key })
    }
  }
}

async function billsOf(bench: Bench, keys: readonly string[]): Promise<unknown[]> {
  const bills = []
  for (const key of keys) {
    for (const month of MONTHS) {
      bills.push(
        await succeed(bench, 'GET', `/partner/v1/billing/monthly?month=${month}`, undefined, { key }),
      )
    }
  }
  return bills
}

async function play({ bench, sandbox, keys }: World, step: Step): Promise<unknown> {
  switch (step.kind) {
    case 'advance':
      return bench.goAhead(sandbox, step.hours * HOUR_MS, step.hours % 2 === 0 ? '50000' : undefined)
    case 'fire':
      return bench.fire(sandbox, 'daily').catch((error) => {
        if (!['sandbox_refused', 'plan_not_found'].includes(error.code)) throw error
      })
    case 'reset':
      await bench.store.resetSandbox(sandbox, AUDIT)
      return enrol(bench, bench.key)
    case 'work-sandbox':
      return work(bench, bench.key)
    case 'bill-sandbox':
      return billsOf(bench, [bench.key])
    case 'pass':
      bench.setClock(plus(bench.now(), step.minutes * MINUTE_MS))
      return bench.tick(step.price ? PRICE : undefined)
    case 'work':
      for (const key of keys) await work(bench, key)
      return null
    case 'bill':
      return billsOf(bench, keys)
    default:
      return step satisfies never
  }
}

suite('a sandbox', () => {
  test('changes nothing of anybody else, whatever is done to it', async () => {
    const sequences = fc.sample(steps, { numRuns: 2, seed: 7 })
    const done = new Set(sequences.flat().map(({ kind }) => kind))
    assert.equal(done.size, SANDBOX.length + 3, 'everything is done once at least')
    for (const sequence of sequences) {
      const ends: (() => unknown)[] = []
      const scope = { after: (end: () => unknown) => void ends.push(end) } as Parameters<typeof build>[0]
      try {
        const [world, control] = [await build(scope), await build(scope)]
        // Until its clock is moved for the first time, a test environment shares the time of all others.
        await play(world, { kind: 'advance', hours: 1 })
        const bills = []
        for (const step of sequence) {
          const ofSandbox = SANDBOX.includes(step.kind)
          const before = await everythingOf(world.bench, world.others)
          const outcome = await play(world, step)
          if (ofSandbox) assertSame(await everythingOf(world.bench, world.others), before, step.kind)
          // The control world has the same history without any use of a sandbox.
          else if (step.kind === 'bill') bills.push([outcome, await play(control, step)])
          else await play(control, step)
        }
        for (const [own, other] of bills) assert.deepEqual(own, other)
        const { others } = control
        const ticks = /\["ticks",\[.*?\]\]/
        assertSame(
          (await comparable(world.bench, world.others)).replace(ticks, ''),
          (await comparable(control.bench, others)).replace(ticks, ''),
          'the world without a sandbox',
        )
        await assertSound(world.bench)
      } finally {
        for (const end of ends.reverse()) await end()
      }
    }
  })
})

// Start dates: whatever a partner, an operator and time do to a plan, it buys nothing before the start_date in the
// API's answer.

type StartStep =
  | { kind: 'send'; body: Record<string, unknown>; startsIn: number | null | undefined }
  | { kind: 'user'; status: string }
  | { kind: 'wait' | 'advance'; hours: number }
  | { kind: 'tick' | 'fire' }

const hours = fc.integer({ min: 1, max: 40 })
const step: fc.Arbitrary<StartStep> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('send' as const),
      body: fc.record(
        {
          amount_usd: fc.constantFrom('60.00', '90.00'),
          frequency: fc.constantFrom('daily', 'weekly'),
          status: fc.constantFrom('active', 'paused'),
          smart_timing_enabled: fc.boolean(),
        },
        { requiredKeys: ['amount_usd', 'frequency'] },
      ),
      startsIn: fc.constantFrom(undefined, undefined, null, -100, -1, 0, 1, 30, 200),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('tick' as const) }) },
  fc.record({ kind: fc.constant('fire' as const) }),
  fc.record({ kind: fc.constant('user' as const), status: fc.constantFrom('disabled', 'linked') }),
  fc.record({ kind: fc.constantFrom('wait' as const, 'advance' as const), hours }),
)

test('no window opens, and nothing fires, before the start_date that the API answers', async (t) => {
  const bench = await startBench(t)
  const acme = await bench.tenant('acme', 'test')
  let runs = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 14 }), async (steps) => {
      runs += 1
      const id = `run-${runs}`
      await link(bench, id)
      let answered: Instant | null = null
      for (const one of steps) {
        const before = (await windowsOf(bench, id)).length
        const fired = (await executionsOf(bench, id)).length
        answered = (await take(bench, acme, { id, step: one })) ?? answered
        if (answered === null) continue
        for (const { start } of (await windowsOf(bench, id)).slice(before))
          assert.ok(
            start >= answered,
            `a window of ${formatInstant(start)} before ${formatInstant(answered)}`,
          )
        for (const { createdAt } of (await executionsOf(bench, id)).slice(fired))
          assert.ok(createdAt >= answered, `fired ${formatInstant(createdAt)}`)
      }
      // Does not disturb the later runs.
      if (answered !== null) await plan(bench, id, id, { status: 'cancelled' })
    }),
    { numRuns: 24, seed: 10 },
  )
  await assertSound(bench)
})

/** Takes a step; returns the answered start_date, when the plan was answered. */
async function take(bench: Bench, tenant: Tenant, { id, step }: { id: string; step: StartStep }) {
  switch (step.kind) {
    case 'send': {
      const { now } = (await bench.store.listSandboxes())[0] ?? { now: bench.now() }
      const start =
        typeof step.startsIn === 'number' ? formatInstant(plus(now, step.startsIn * HOUR_MS)) : step.startsIn
      const body = { ...PLAN, partner_user_id: id, partner_plan_id: id, ...step.body, start_date: start }
      const answer = await bench.call('POST', PLANS, body)
      return answer.status === 200 ? (Date.parse(answer.body.start_date) as Instant) : null
    }
    case 'user':
      await setUser(bench, id, step.status)
      return null
    case 'wait':
      bench.advance(step.hours * HOUR_MS)
      return null
    case 'advance':
      await bench.goAhead(tenant, step.hours * HOUR_MS, LOW_PRICE)
      return null
    case 'tick':
      await bench.tick(LOW_PRICE)
      return null
    case 'fire':
      await bench.fire(tenant, id).catch((error) => assert.ok(error instanceof Problem, String(error)))
      return null
    default:
      return step satisfies never
  }
}
