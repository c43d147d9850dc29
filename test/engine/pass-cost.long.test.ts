// A pass costs as much as it fires: waiting plans are not read, however many there are.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Price, price } from '../../src/core/money.ts'
import { HOUR_MS, plus } from '../../src/core/time.ts'
import { runPass } from '../../src/engine/pass.ts'
import { T0 } from '../support/service.ts'
import { measure } from '../support/within.ts'
import { manyWaiting, type Waiting } from './passes.ts'

const FEW = 1_000
const MANY = 40_000
const RATIO_MAX = 3

const LIVE = { price: price('60000'), source: 'test' }

async function pass({ store, machine }: Waiting, live = true) {
  const report = await runPass({
    store,
    machine,
    observe: async () => ({ price: live ? LIVE : null, testimony: 'none' }),
  })
  assert.ok(report)
  return report
}

async function lookUp({ store, machine }: Waiting, live: boolean): Promise<void> {
  const livePrice = live ? LIVE.price : null
  assert.deepEqual(await store.listDuePlans({ now: machine.clock(), livePrice, leadMs: HOUR_MS }), [])
}

/** The median time of each of two, taken in turns so that a noisy moment affects both. */
async function medians(turns: number, runs: [() => Promise<unknown>, () => Promise<unknown>]) {
  const times: [number[], number[]] = [[], []]
  for (let turn = 0; turn < turns; turn++) {
    for (const i of [0, 1] as const) {
      const from = performance.now()
      await runs[i]()
      times[i].push(performance.now() - from)
    }
  }
  const [few = 0, many = 0] = times.map((all) => all.sort((a, b) => a - b)[Math.floor(all.length / 2)])
  return { few, many, ratio: many / few }
}

test('a pass that fires nothing costs the same over 1,000 and over 40,000 waiting plans', async (t) => {
  const [few, many] = [await manyWaiting(t, FEW), await manyWaiting(t, MANY)]
  const idle = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0 }
  for (const one of [few, many]) {
    const { plansEvaluated, executionsCreated, windowsRolled } = await pass(one)
    assert.deepEqual({ plansEvaluated, executionsCreated, windowsRolled }, idle)
  }
  const isFine = ({ ratio }: { ratio: number }) => ratio < RATIO_MAX
  const whole = await measure(() => medians(25, [() => pass(few), () => pass(many)]), isFine)
  assert.ok(whole.ratio < RATIO_MAX, `whole passes: ${JSON.stringify(whole)}`)
  // Without the commits, which cost the same however many plans there are and would hide a scan.
  for (const live of [true, false]) {
    const look = await measure(
      () => medians(100, [() => lookUp(few, live), () => lookUp(many, live)]),
      isFine,
    )
    assert.ok(look.ratio < RATIO_MAX, `looking for due plans, live ${live}: ${JSON.stringify(look)}`)
  }
})

test('a pass touches the plans whose price or hour has come, and no others', async (t) => {
  const waiting = await manyWaiting(t, FEW)
  const touched = async (live: boolean): Promise<number> => {
    const { plansEvaluated, executionsCreated } = await pass(waiting, live)
    assert.equal(executionsCreated, plansEvaluated)
    return plansEvaluated
  }
  assert.equal(await touched(true), 0)
  // A hundred plans wait for a price of 900 to 999 units of 1e-8 under the limit: they are not reached.
  const low = { price: (price('50000') - 899n) as Price, source: 'test' }
  const observe = async () => ({ price: low, testimony: 'none' as const })
  const report = await runPass({ store: waiting.store, machine: waiting.machine, observe })
  assert.equal(report?.plansEvaluated, 900)
  assert.equal(report?.executionsCreated, 900)
  waiting.setClock(plus(T0, 9 * HOUR_MS + 950))
  assert.equal(await touched(false), 51)
  assert.deepEqual(await waiting.store.findFaults(), [])
})
