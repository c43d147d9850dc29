// `tick --dry-run`: it stores nothing, and the next tick fires the announced tranches, for the announced reasons.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { formatPrice, formatUsd, type Price } from '../../src/core/money.ts'
import { HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import type { ListedExecution } from '../../src/store/store.ts'
import { PLAN, runHere, type Service, startService, USER } from '../support/service.ts'

/** The fields of a tranche, as rehearsed and as fired. */
const SAID = [
  ...['partner_plan_id', 'amount_usd', 'trigger', 'tranche_index', 'slot', 'units'],
  ...['reference_usd', 'reservation_price_usd'],
]
type Said = Record<string, string | number | null>
type DryRun = { price_usd: string | null; plans_evaluated: number; would_fire: Said[] }

async function rehearse(service: Service, priceUsd?: string): Promise<DryRun> {
  const { machine } = machineAt(service.now())
  const price = priceUsd === undefined ? [] : ['--price', priceUsd]
  const argv = ['--db', service.file, '--json', 'tick', '--dry-run', ...price]
  const { code, out, err } = await runHere(argv, { machine })
  assert.equal(code, 0, err)
  return JSON.parse(out)
}

/** Every row of every table, read past the program. */
function contentOf(file: string): string {
  const db = openFile(file)
  try {
    const names = db.prepare<[], string>(`select name from sqlite_schema where type = 'table' order by name`)
    const rows = (name: string) => db.prepare(`select * from ${name}`).raw().all()
    const tables = names.pluck().all()
    return JSON.stringify(
      tables.map((name) => [name, rows(name)]),
      (_, value) => (typeof value === 'bigint' ? `${value}n` : value),
    )
  } finally {
    db.close()
  }
}

const ALL = { slug: null, environment: null, status: null, stuck: false }
const executions = (service: Service): Promise<ListedExecution[]> =>
  service.store.listExecutions(ALL, { after: null, limit: 1_000 })

/** Sorted, without what a rehearsal says besides. */
const inOrder = (all: Said[]): string[] => all.map((one) => JSON.stringify(one, SAID)).sort()

const shown = (price: Price | null): string | null => price && formatPrice(price)
const saidOf = ({ partnerPlanId, amount, trancheIndex, firing }: ListedExecution): Said => ({
  partner_plan_id: partnerPlanId,
  amount_usd: formatUsd(amount),
  trigger: firing.trigger,
  tranche_index: trancheIndex,
  slot: firing.slot,
  units: firing.units,
  reference_usd: shown(firing.reference),
  reservation_price_usd: shown(firing.reservationPrice),
})
/** Rehearses, checks that nothing was stored, runs the tick, and checks that it fired the rehearsed tranches. */
async function rehearseThenPass(service: Service, priceUsd?: string): Promise<Said[]> {
  const stored = contentOf(service.file)
  const dry = await rehearse(service, priceUsd)
  assert.equal(contentOf(service.file), stored, 'a dry run stores nothing')
  const before = (await executions(service)).length
  const report = await service.tick(priceUsd)
  const fired = (await executions(service)).slice(before).map(saidOf)
  assert.deepEqual(inOrder(dry.would_fire), inOrder(fired))
  assert.equal(dry.plans_evaluated, report.plansEvaluated)
  assert.equal(dry.price_usd, shown(report.price))
  return fired
}

async function serviceWith(t: Pick<TestContext, 'after'>, plans: object[] = [PLAN]): Promise<Service> {
  const service = await startService(t)
  await service.call('POST', '/partner/v1/users', USER)
  for (const plan of plans) {
    assert.equal((await service.call('POST', '/partner/v1/plans', plan)).status, 200)
  }
  return service
}

test('a dry run with plans of every size, at any times and prices, is what the tick then does', async (t) => {
  const step = fc.record({
    afterMs: fc.oneof(
      { weight: 4, arbitrary: fc.integer({ min: 1, max: 3 * HOUR_MS }) },
      { weight: 2, arbitrary: fc.integer({ min: 1, max: 10 * MINUTE_MS }) },
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 60 * HOUR_MS }) },
    ),
    price: fc.option(fc.integer({ min: 5_900_000, max: 6_100_000 }), { nil: undefined, freq: 4 }),
  })
  const plans = ['12.00', '60.00', '333.33'].flatMap((amount_usd) =>
    (['daily', 'weekly'] as const).map((frequency) => ({
      ...PLAN,
      partner_plan_id: `${frequency} ${amount_usd}`,
      amount_usd,
      frequency,
    })),
  )
  const seen = new Set<unknown>()
  const [path = []] = fc.sample(fc.array(step, { minLength: 45, maxLength: 45 }), { numRuns: 1, seed: 9 })
  const service = await serviceWith(t, plans)
  for (const { afterMs, price } of path) {
    service.advance(afterMs)
    const fired = await rehearseThenPass(service, price === undefined ? undefined : (price / 100).toFixed(2))
    for (const { trigger } of fired) seen.add(trigger)
  }
  assert.deepEqual(await service.store.findFaults(), [])
  for (const trigger of ['slot_start', 'limit', 'deadline', 'catch_up', 'clock', 'failsafe']) {
    assert.ok(seen.has(trigger), `the path meets ${trigger}`)
  }
})
