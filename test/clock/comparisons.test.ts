// Every stored instant that a clock is compared with, under a clock an hour and a year off in both directions:
// the rows of docs/decisions/clock.md#every-comparison-with-a-clock.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import { createRateLimit } from '../../src/http/turns.ts'
import { tenantOf, WEBHOOKS } from '../http/steps.ts'
import { AUDIT, startService, T0 } from '../support/service.ts'

const YEAR_MS = 365 * DAY_MS
const OFF = [HOUR_MS, YEAR_MS].flatMap((ms) => [ms, -ms])
const spell = (ms: number): string => `${ms / HOUR_MS} h`

for (const off of OFF) {
  describe(`a clock ${spell(off)} off`, { concurrency: true }, () => {
    const wrong = plus(T0, off)

    test('prices: none is live that is not of the last twenty minutes of this clock', async (t) => {
      const service = await startService(t)
      await service.tick('60000')
      service.setClock(wrong)
      assert.equal((await service.tick()).price, null)
      service.setClock(plus(T0, MINUTE_MS))
      assert.notEqual((await service.tick()).price, null)
    })

    test('sandboxes: their time goes with the clock, and back with it', async (t) => {
      const { store, setClock, now } = await startService(t)
      const tenant = await tenantOf({ store })
      const { wakeUpId, end } = await store.beginAdvance(tenant, DAY_MS, AUDIT)
      const decisions = { roll: () => null, decide: () => assert.fail(), newExecutionId: () => assert.fail() }
      await store.moveSandbox(tenant, DAY_MS, { wakeUpId, planIds: [], decisions })
      await end()
      for (const at of [wrong, T0]) {
        setClock(at)
        assert.equal((await store.listSandboxes())[0]?.now, plus(now(), DAY_MS))
      }
    })

    test('the rate limit: a bucket is full at most, and goes on after the jump', () => {
      const throttle = createRateLimit(2)
      const spend = (at: typeof T0): boolean => {
        try {
          throttle('k', at)
          return true
        } catch {
          return false
        }
      }
      const three = (at: typeof T0) => [1, 2, 3].filter(() => spend(at)).length
      assert.deepEqual([three(T0), three(wrong)], [2, off > 0 ? 2 : 0])
      assert.equal(spend(plus(wrong, 1000)), true)
    })

    test('tests of a webhook: five more after the jump, and no more', async (t) => {
      const { call, setClock } = await startService(t)
      await call('POST', WEBHOOKS, { url: 'https://127.0.0.1/' })
      const sixTests = async () => {
        const statuses: number[] = []
        for (let n = 0; n < 6; n++) statuses.push((await call('POST', `${WEBHOOKS}/test`, {})).status)
        return statuses
      }
      for (const at of [T0, wrong, T0]) {
        setClock(at)
        assert.deepEqual(await sixTests(), [200, 200, 200, 200, 200, 429], spell(at - T0))
      }
    })

    test('retention: passes and wake-ups are kept by number, whatever they are dated', async (t) => {
      const { store, setClock, tick } = await startService(t)
      await tick()
      setClock(wrong)
      await tick()
      setClock(T0)
      await tick()
      assert.equal((await store.listPassesAfter(0)).length, 3)
    })
  })
}
