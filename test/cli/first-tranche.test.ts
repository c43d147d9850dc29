// When the first tranche of a plan fires without a price feed, as init and docs/reference.md promise it.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { feedWords } from '../../src/cli/init/dialogue.ts'
import { HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { PLAN, startService, USER } from '../support/service.ts'

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/reference.md'), 'utf8')
const PROMISED: [frequency: string, amount: string, hours: number, words: RegExp][] = [
  ['daily', '30.00', 2, /two\s+hours after a daily plan of 30\.00 USD or\s+more begins/],
  ['weekly', '140.00', 3, /three hours after a weekly plan of\s+140\.00/],
  ['bi-weekly', '280.00', 3, /a bi-weekly plan of\s+280\.00/],
]

for (const [frequency, amount, hours, words] of PROMISED) {
  test(`a ${frequency} plan of ${amount} fires after ${hours} hours, and a smaller one later`, async (t) => {
    const service = await startService(t)
    await service.call('POST', '/partner/v1/users', USER)
    const plan = { ...PLAN, frequency, amount_usd: amount }
    const smaller = { ...plan, partner_plan_id: 'smaller', amount_usd: '10.00' }
    for (const one of [plan, smaller]) await service.call('POST', '/partner/v1/plans', one)
    await service.tick()
    service.advance(hours * HOUR_MS - MINUTE_MS)
    assert.equal((await service.tick()).executionsCreated, 0)
    service.advance(MINUTE_MS)
    assert.equal((await service.tick()).executionsCreated, 1)
    const due = (await service.call('GET', '/partner/v1/executions/due')).body
    assert.equal(due[0].partner_plan_id, plan.partner_plan_id)
    const said = feedWords({ feed: 'none', price_usd: null, complaints: [] })
    for (const text of [said, GUIDE]) assert.match(text, words)
  })
}
