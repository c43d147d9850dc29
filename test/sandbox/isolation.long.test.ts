// Whatever is done to a sandbox, every other environment stays as it was, to the byte.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import type { Tenant } from '../../src/core/partner.ts'
import { HOUR_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import { assertSound, link, PRICE, plan, poll, succeed } from '../http/steps.ts'
import { AUDIT, T0 } from '../support/service.ts'
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

/** Confirms everything that is due, under order ids that do not depend on chance. */
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
          // The control world lives through the same without a sandbox ever being touched.
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

  test('a month ahead leaves the recording of the others where it is', async (t) => {
    const world = await build(t)
    const { bench, sandbox, keys } = world
    await bench.tick(PRICE)
    await bench.goAhead(sandbox, 27 * 24 * HOUR_MS)
    await work(bench, bench.key)
    await billsOf(bench, [bench.key])
    for (const key of keys) await work(bench, key)
    const [own] = await bench.rows(
      'select min(recorded_at) as at from trades where tenant_id = ?',
      sandbox.tenantId,
    )
    assert.equal(own?.at, T0 + 27 * 24 * HOUR_MS)
    const [rest] = await bench.rows(
      'select max(recorded_at) as at from trades where tenant_id <> ?',
      sandbox.tenantId,
    )
    assert.equal(rest?.at, T0)
    assert.deepEqual(await bench.rows('select * from closed_months'), [])
    assert.ok((await bench.rows('select at from reported_until')).every(({ at }) => Number(at) <= T0 + 1))
    // Its own January is over for good, that of the others is not.
    const january = '/partner/v1/billing/monthly?month=2026-01'
    assert.equal((await succeed(bench, 'GET', january)).final, true)
    assert.equal((await succeed(bench, 'GET', january, undefined, { key: keys[0] ?? '' })).final, false)
  })
})
