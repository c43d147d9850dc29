// The scheduler and the backtest: a window of the backtest fires the tranches of real passes, and a damaged plan stops
// no other.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CENT, formatPrice } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import { type Frequency, WINDOW_MS } from '../../src/core/window.ts'
import { backtest, tranchesOf } from '../../src/engine/backtest.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { type Point, walk } from '../price/histories.ts'
import { allExecutions, each } from '../store/world.ts'
import { historyOf } from '../support/samples.ts'
import { PLAN, startService, T0, USER } from '../support/service.ts'

/** Bar, trigger and units of a tranche, in the order of the tranches. */
type Fired = { bar: number; units: number; trigger: string }

/** Two weeks of prices before T0, the window's own from T0 on, and the one that ends it. */
function pricesOf(frequency: Frequency, everyMs: number, seed: number): Point[] {
  const rows = (14 * DAY_MS + WINDOW_MS[frequency]) / everyMs + 1
  return walk(rows, { seed, everyMs, start: plus(T0, -14 * DAY_MS) })
}

function playedBack(points: Point[], frequency: Frequency): Fired[] {
  const history = historyOf(points)
  const windows = backtest(history, frequency)
  assert.deepEqual([...windows.start], [T0])
  const first = windows.firstBar[0] ?? 0
  return tranchesOf(history, windows, 0).map(({ bar, units, trigger }) => ({
    bar: bar - first,
    units,
    trigger,
  }))
}

async function scheduled(
  t: { after: (end: () => void) => void },
  points: Point[],
  frequency: Frequency,
): Promise<Fired[]> {
  const service = await startService(t)
  const earlier = points.filter(({ at }) => at < T0)
  await service.store.importPrices(
    (async function* () {
      yield earlier
    })(),
    'test',
  )
  await service.call('POST', '/partner/v1/users', USER)
  const plan = { ...PLAN, amount_usd: '10000.00', frequency }
  assert.equal((await service.call('POST', '/partner/v1/plans', plan)).status, 200)

  const inside = points.slice(earlier.length, -1)
  for (const { at, price } of inside) {
    service.setClock(at)
    await service.tick(formatPrice(price))
  }
  const executions = await allExecutions(service.store)
  assert.deepEqual(await service.store.findFaults(), [])
  const units = executions.reduce((sum, { firing }) => sum + firing.units, 0)
  for (const { amount, firing } of executions) {
    // Units are equal to the cent except for the last ones, which take the rest.
    const cents = Number(amount / CENT) - (1_000_000 * firing.units) / units
    assert.ok(Math.abs(cents) <= units, `${firing.units} of ${units} units are ${amount}`)
  }
  return executions.map(({ createdAt, firing }) => ({
    bar: inside.findIndex(({ at }) => at === createdAt),
    units: firing.units,
    trigger: firing.trigger,
  }))
}

describe('a window played back is the window as it would have been bought', () => {
  for (const [frequency, everyMs, seed] of [
    ['daily', 5 * MINUTE_MS, 1],
    ['daily', 15 * MINUTE_MS, 2],
    ['daily', HOUR_MS, 5],
    ['daily', 6 * HOUR_MS, 8],
    ['daily', 6 * HOUR_MS, 9],
    ['weekly', 2 * HOUR_MS, 10],
    ['bi-weekly', 6 * HOUR_MS, 12],
  ] as const)
    test(`${frequency}, a price every ${everyMs / MINUTE_MS} minutes, seed ${seed}`, async (t) => {
      const points = pricesOf(frequency, everyMs, seed)
      const fired = playedBack(points, frequency)
      assert.ok(fired.length > 1)
      assert.deepEqual(await scheduled(t, points, frequency), fired)
    })
})

// A plan whose row is damaged must not prevent the plans beside it from buying.

test('a plan that cannot be decided is named and stops nobody else', async (t) => {
  const service = await startService(t)
  await service.call('POST', '/partner/v1/users', USER)
  for (const id of ['p1', 'broken', 'p3']) {
    await service.call('POST', '/partner/v1/plans', { ...PLAN, partner_plan_id: id })
  }
  const db = openFile(service.file)
  // More left to fire than the window's budget: the reservation breaks the ledger's own rule.
  db.exec(`update schedules set fireable = budget * 9
    where plan_id = (select plan_id from plans where partner_plan_id = 'broken')`)
  db.close()

  const report = await service.tick('60000')
  assert.equal(report.executionsCreated, 2)
  assert.equal(report.failed.length, 1)
  const due = await service.call('GET', '/partner/v1/executions/due')
  assert.deepEqual(each(due.body, 'partner_plan_id'), ['p1', 'p3'])
  const [found] = await service.store.findPlans('broken')
  assert.equal(report.failed[0]?.planId, found?.planId)
  assert.deepEqual(each(await service.store.findFaults(), 'kind'), ['schedule'])
})
