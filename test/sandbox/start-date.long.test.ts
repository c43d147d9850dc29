// Start dates: whatever a partner, an operator and time do to a plan, it buys nothing before the start_date that the
// API answers.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Tenant } from '../../src/core/partner.ts'
import { Problem } from '../../src/core/problem.ts'
import { DAY_MS, formatInstant, HOUR_MS, type Instant, plus } from '../../src/core/time.ts'
import { assertSound, executionsOf, LOW_PRICE, link, PLANS, plan, setUser, windowsOf } from '../http/steps.ts'
import { PLAN, T0 } from '../support/service.ts'
import { type Bench, startBench } from './bench.ts'

/** The restarts of a plan that one request can ask for. */
const RESTARTS: Record<string, (bench: Bench, id: string) => Promise<unknown>> = {
  'another amount': (bench, id) => plan(bench, id, id, { amount_usd: '90.00' }),
  'another frequency': (bench, id) => plan(bench, id, id, { frequency: 'weekly' }),
  'another amount, start_date null': (bench, id) =>
    plan(bench, id, id, { amount_usd: '90.00', start_date: null }),
  'paused and activated': async (bench, id) => {
    await plan(bench, id, id, { status: 'paused' })
    await plan(bench, id, id, { status: 'active' })
  },
  'user disabled and linked, plan activated': async (bench, id) => {
    await setUser(bench, id, 'disabled')
    await setUser(bench, id, 'linked')
    await plan(bench, id, id, { status: 'active' })
  },
  'smart timing off and on': async (bench, id) => {
    await plan(bench, id, id, { smart_timing_enabled: false })
    await plan(bench, id, id, { smart_timing_enabled: true })
  },
}

test('a plan that has not begun buys nothing, however it is restarted, and then begins on its date', async (t) => {
  const bench = await startBench(t)
  const acme = await bench.tenant('acme', 'test')
  const ids = Object.keys(RESTARTS)
  for (const [id, restart] of Object.entries(RESTARTS)) {
    await link(bench, id)
    const made = await plan(bench, id, id, { start_date: formatInstant(plus(T0, 3 * DAY_MS)) })
    await restart(bench, id)
    assert.equal((await plan(bench, id, id)).start_date, made.start_date, id)
    await assert.rejects(bench.fire(acme, id), { code: 'sandbox_refused' }, id)
  }
  assert.equal((await bench.tick(LOW_PRICE)).executionsCreated, 0)
  await bench.goAhead(acme, 3 * DAY_MS - 1, LOW_PRICE)
  for (const id of ids) assert.deepEqual(await executionsOf(bench, id), [], id)
  await bench.goAhead(acme, 1, LOW_PRICE)
  for (const id of ids) {
    assert.equal((await executionsOf(bench, id)).length, 1, id)
    assert.equal((await windowsOf(bench, id)).at(-1)?.start, plus(T0, 3 * DAY_MS), id)
  }
  await assertSound(bench)
})

type Step =
  | { kind: 'send'; body: Record<string, unknown>; startsIn: number | null | undefined }
  | { kind: 'user'; status: string }
  | { kind: 'wait' | 'advance'; hours: number }
  | { kind: 'tick' | 'fire' }

const hours = fc.integer({ min: 1, max: 40 })
const step: fc.Arbitrary<Step> = fc.oneof(
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
      // Out of the way of the runs behind it.
      if (answered !== null) await plan(bench, id, id, { status: 'cancelled' })
    }),
    { numRuns: 24, seed: 10 },
  )
  await assertSound(bench)
})

/** Takes a step; returns the start_date answered, when the plan was answered. */
async function take(bench: Bench, tenant: Tenant, { id, step }: { id: string; step: Step }) {
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
