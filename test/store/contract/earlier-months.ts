// Months that are final because a later one is: they are neither closed by themselves, nor does anything enter them.

import assert from 'node:assert/strict'
import { usd } from '../../../src/core/money.ts'
import type { FixedPeriod } from '../../../src/core/month.ts'
import { type Period, periodOf } from '../../../src/core/month.ts'
import { HOUR_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { type Contract, filled, link, openWorld, poll, report, sendPlan, tick, type World } from '../world.ts'

const JANUARY = periodOf('2026-01')
const FEBRUARY = periodOf('2026-02')
const final = (period: Period): FixedPeriod => ({ ...period, final: true })

/** An execution that waits to be confirmed. */
async function delivered(world: World): Promise<string> {
  const { store, acmeLive } = world
  await link(store, acmeLive)
  await sendPlan(store, acmeLive)
  await tick(world, '60000')
  return (await poll(store, acmeLive))[0]?.executionId ?? ''
}

export const earlierMonthContract: Contract = {
  'a month before one that was reported as final is final as well': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acmeLive } = world
    const id = await delivered(world)
    world.setClock(plus(FEBRUARY.end, MINUTE_MS))
    await tick(world, '60000')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, FEBRUARY), final(FEBRUARY))
    world.setClock(plus(JANUARY.end, -HOUR_MS))
    for (const period of [JANUARY, periodOf('0001-01')]) {
      assert.deepEqual(await store.fixTenantPeriod(acmeLive, period), final(period))
      assert.deepEqual(await store.fixPeriod(period), final(period))
    }
    await report(store, acmeLive, id, filled(usd('10')))
    assert.equal((await store.findExecution(id))?.trade?.recordedAt, FEBRUARY.end)
  },

  'months before the first partner are closed together, and none after them': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acmeLive } = world
    const id = await delivered(world)
    world.setClock(plus(JANUARY.end, MINUTE_MS))
    await tick(world, '60000')
    const old = periodOf('1969-12')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, old), final(old))
    const back = plus(JANUARY.end, -HOUR_MS)
    world.setClock(back)
    const december = periodOf('2025-12')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, december), final(december))
    assert.equal((await store.fixTenantPeriod(acmeLive, JANUARY)).final, false)
    await report(store, acmeLive, id, filled(usd('10')))
    assert.equal((await store.findExecution(id))?.trade?.recordedAt, back)
  },
}
