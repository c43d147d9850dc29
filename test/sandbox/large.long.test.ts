// An environment with many plans, each of which waits for instants of its own.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS, plus } from '../../src/core/time.ts'
import { EXACT_PLANS_MAX } from '../../src/engine/sandbox.ts'
import { assertSound, link } from '../http/steps.ts'
import { sendPlan } from '../store/world.ts'
import { T0 } from '../support/service.ts'
import { startBench } from './bench.ts'

/** Without a price, the one unit of a slot of four hours fires in its middle. */
const CLOCK_MS = 2 * HOUR_MS

test('the stops of a minute are one in a large environment, and nothing fires before its time', async (t) => {
  const bench = await startBench(t)
  await link(bench, 'u1')
  const acme = await bench.tenant('acme', 'test')
  for (let i = 0; i <= EXACT_PLANS_MAX; i++) {
    bench.setClock(plus(T0, i * 10))
    await sendPlan(bench.store, acme, { partnerPlanId: `p${i}` })
  }
  const { executionsCreated, passes } = await bench.goAhead(acme, DAY_MS)
  assert.equal(executionsCreated, 6 * (EXACT_PLANS_MAX + 1))
  assert.ok(passes < 60, `${passes} passes`)
  const fired = await bench.rows(
    `select min(e.created_at - w.window_start) as earliest, max(e.created_at - w.window_start) as latest
     from executions e join windows w using (window_id) where e.tranche_index = 0`,
  )
  // The first plan has waited for the last one, whose window began ten seconds later.
  assert.deepEqual(fired, [{ earliest: CLOCK_MS, latest: CLOCK_MS + EXACT_PLANS_MAX * 10 }])
  await assertSound(bench)
})
