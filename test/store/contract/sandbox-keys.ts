// The idempotency keys of a sandbox: none comes again, however often its environment is wiped.

import assert from 'node:assert/strict'
import type { Execution } from '../../../src/core/execution.ts'
import { idempotencyKey } from '../../../src/core/execution.ts'
import { usd } from '../../../src/core/money.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { DAY_MS, formatInstant, HOUR_MS, plus, SECOND_MS } from '../../../src/core/time.ts'
import { advanceSandbox } from '../../../src/engine/sandbox.ts'
import {
  AUDIT,
  allPlans,
  type Contract,
  link,
  openWorld,
  poll,
  sendPlan,
  T0,
  tick,
  type World,
} from '../world.ts'

const keyOf = (execution: Execution): string => idempotencyKey(execution, formatInstant)

const goAhead = ({ store, machine }: World, tenant: Tenant, byMs: number) =>
  advanceSandbox({ store, machine, tenant, byMs, price: null, audit: AUDIT, onProgress: () => {} })

export const sandboxKeyContract: Contract = {
  'after a reset no idempotency key comes again: a plan that would, begins a millisecond after its last window':
    async (t, open) => {
      const world = await openWorld(t, open)
      const { store, acme, acmeLive, bolt } = world
      const tenants = [acme, acmeLive, bolt]
      world.setClock(plus(T0, 10 * HOUR_MS))
      for (const tenant of tenants) await link(store, tenant)
      const keys: string[] = []
      const starts: number[] = []
      // The window of the day, and one that a change of the plan opens.
      for (const round of [0, 1, 2]) {
        if (round > 0) await store.resetSandbox(acme, AUDIT)
        await link(store, acme)
        for (const amount of ['60', '90'].map(usd)) {
          world.setClock(plus(T0, 10 * HOUR_MS))
          await sendPlan(store, acme, { startDate: T0, amount })
          world.advance(SECOND_MS)
          await tick(world, '60000')
        }
        const [seen] = await store.findPlans('p1')
        starts.push(...(seen?.windows ?? []).map(({ start }) => start - T0))
        keys.push(...(await poll(store, acme)).map(keyOf))
      }
      const ten = 10 * HOUR_MS
      assert.deepEqual(starts, [0, ten, ten + 1, ten + 2, ten + 3, ten + 4])
      assert.deepEqual([keys.length, new Set(keys).size], [6, 6])
      // Its grid is that of its start_date, or of the change, as ever.
      await store.resetSandbox(acme, AUDIT)
      await link(store, acme)
      for (const id of ['p1', 'p2']) await sendPlan(store, acme, { partnerPlanId: id, startDate: T0 })
      for (const tenant of [acmeLive, bolt]) await sendPlan(store, tenant, { startDate: T0 })
      await goAhead(world, acme, 3 * DAY_MS)
      const windows = async (tenant: Tenant, id: string) =>
        (await store.findPlans(id))
          .filter((plan) => plan.tenant.tenantId === tenant.tenantId)
          .flatMap((plan) => plan.windows.map(({ start, end }) => [start - T0, end - T0]))
      const grid = [1, 2, 3].map((day) => [day * DAY_MS, (day + 1) * DAY_MS])
      assert.equal((await allPlans(store)).length, 4)
      assert.deepEqual(await windows(acme, 'p1'), [[ten + 5, DAY_MS], ...grid])
      assert.deepEqual(await windows(acme, 'p2'), [[0, DAY_MS], ...grid])
      for (const tenant of [acmeLive, bolt]) assert.deepEqual(await windows(tenant, 'p1'), [[0, DAY_MS]])
      const fired = (await poll(store, acme)).map(keyOf)
      assert.ok(fired.length > 6)
      assert.deepEqual(
        fired.filter((key) => keys.includes(key)),
        [],
      )
      assert.deepEqual(await store.findFaults(), [])
    },

  'keys are remembered over any number of resets, also of plans that were not sent again, and a month later':
    async (t, open) => {
      const world = await openWorld(t, open)
      const { store, acme } = world
      const keys = new Map<string, string>()
      const round = async (ids: readonly string[]) => {
        await link(store, acme)
        for (const partnerPlanId of ids) await sendPlan(store, acme, { partnerPlanId, startDate: T0 })
        world.advance(SECOND_MS)
        await tick(world, '60000')
        for (const execution of await poll(store, acme)) {
          assert.equal(keys.get(keyOf(execution)), undefined, keyOf(execution))
          keys.set(keyOf(execution), execution.executionId)
        }
        await store.resetSandbox(acme, AUDIT)
      }
      await round(['p1', 'p2'])
      await round(['p2'])
      await round([])
      await round(['p1', 'p2'])
      assert.equal(keys.size, 5)
      // What is older than any window of today is forgotten plan by plan, and remembered as one instant of them all.
      await goAhead(world, acme, 30 * DAY_MS)
      await store.resetSandbox(acme, AUDIT)
      await store.resetSandbox(acme, AUDIT)
      world.setClock(plus(T0, SECOND_MS - 30 * DAY_MS))
      await round(['p1', 'p2'])
      assert.equal(keys.size, 7)
      assert.deepEqual(await store.findFaults(), [])
    },
}
