// A clock in doubt: what one pass finds out holds for every process, until it is settled.

import assert from 'node:assert/strict'
import { judgeClock } from '../../../src/core/clock.ts'
import { DAY_MS, HOUR_MS, plus } from '../../../src/core/time.ts'
import { runPass } from '../../../src/engine/pass.ts'
import { type Contract, firstTranche, openWorld, problem, T0 } from '../world.ts'

export const clockContract: Contract = {
  'a dispute stands until it is settled, for every connection': async (t, open) => {
    const world = await openWorld(t, open)
    const { store } = world
    const other = await world.connect()
    const witness = { source: 'feed', at: plus(T0, DAY_MS) }
    const dispute = { clockAt: T0, witness }
    assert.deepEqual(await store.judgeClock((now) => judgeClock(now, witness, null)), dispute)
    for (const one of [store, other]) assert.deepEqual(await one.readClock(), { now: T0, standing: dispute })
    const silent = await other.judgeClock((now, standing) => judgeClock(now, 'silent', standing))
    assert.deepEqual(silent, dispute, 'a silent witness settles nothing')
    assert.equal(await store.judgeClock(() => null), null)
    assert.equal((await other.readClock()).standing, null)
  },

  'a pass by a disputed clock leaves nothing but the dispute, and closes no month': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, machine } = world
    await firstTranche(world)
    world.advance(27 * DAY_MS)
    const before = [await store.findPlans('p1'), await store.readMarks()]
    const testimony = { source: 'feed', at: plus(T0, HOUR_MS) }
    const pass = runPass({ store, machine, observe: async () => ({ price: null, testimony }) })
    await assert.rejects(pass, problem('clock_disputed'))
    assert.deepEqual([await store.findPlans('p1'), await store.readMarks()], before)
    const january = { month: '2026-01', start: plus(T0, -4 * DAY_MS), end: plus(T0, 27 * DAY_MS) }
    assert.equal((await store.fixPeriod(january)).final, false)
  },
}
