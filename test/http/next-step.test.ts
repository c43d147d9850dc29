// When a plan's next step comes: as long as the scheduler has to take it, that is never in the past.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, formatInstant, type Instant, MINUTE_MS } from '../../src/core/time.ts'
import { startBench } from '../sandbox/bench.ts'
import { AUDIT, fill, type Service } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  EXECUTIONS,
  link,
  PRICE,
  plan,
  planPath,
  poll,
  setUser,
  succeed,
} from './steps.ts'

test('a plan never looks for its next step in the past', async (t) => {
  const bench = await startBench(t)
  const here = await bench.store.findTenant('acme', 'test')
  assert.ok(here)
  /** The step and its time, in minutes from the time of the sandbox. */
  const next = async (id: string): Promise<[unknown, number | null]> => {
    const { as_of } = await succeed(bench, 'GET', EXECUTIONS)
    const { next_step, next_step_at: at } = await succeed(bench, 'GET', planPath(id))
    return [next_step, at === null ? null : (Date.parse(at) - Date.parse(as_of)) / MINUTE_MS]
  }
  const hold = (held: boolean) => bench.store.changePartner('acme', (seen) => ({ ...seen, held }), AUDIT)
  await link(bench, 'u')
  await plan(bench, 'u', 'on')
  await plan(bench, 'u', 'off', { smart_timing_enabled: false })
  await plan(bench, 'u', 'paused', { status: 'paused' })
  await plan(bench, 'u', 'spent', { amount_usd: '1.00' })
  await link(bench, 'other')
  await plan(bench, 'other', 'later', {
    start_date: formatInstant((bench.now() + 9 * DAY_MS) as Instant),
  })
  bench.advance(30_000)
  assert.deepEqual(await next('on'), ['buy', 0], 'no pass has looked at it yet')
  await bench.tick(PRICE)
  await reportBought(bench, ['1.00', '10.00'])
  assert.deepEqual(await next('spent'), ['next_window', 24 * 60 - 0.5])
  const [step, minutes] = await next('on')
  assert.ok(step === 'buy' && minutes !== null && minutes > 0, `${step} ${minutes}`)

  // The sandbox is three days ahead of the machine, and its passes have left what is off or paused alone.
  await bench.goAhead(here, 3 * DAY_MS)
  assert.deepEqual(await next('off'), ['enable_smart_timing', null])
  await plan(bench, 'u', 'off', { smart_timing_enabled: true })
  assert.deepEqual(await next('off'), ['next_window', 0], 'its window ended while it was off')
  await hold(true)
  assert.deepEqual(await next('off'), ['release_hold', null])
  await hold(false)
  await setUser(bench, 'u', 'disabled')
  assert.deepEqual(await next('off'), ['link_user', null])
  await setUser(bench, 'u', 'linked')
  assert.deepEqual(await next('off'), ['activate', null])
  await plan(bench, 'u', 'off', { status: 'active' })
  assert.deepEqual(await next('off'), ['buy', 0], 'a window that begins now')
  await plan(bench, 'u', 'paused', { status: 'active', smart_timing_enabled: false })
  await plan(bench, 'u', 'paused', { smart_timing_enabled: true })
  assert.deepEqual(await next('paused'), ['buy', 0])
  assert.deepEqual(await next('later'), ['buy', 6 * 24 * 60 - 0.5])

  // Nobody runs a pass for two days, and then one does: what was overdue is done.
  bench.advance(2 * DAY_MS)
  for (const id of ['off', 'paused']) assert.deepEqual(await next(id), ['next_window', 0], id)
  await bench.tick(PRICE)
  for (const id of ['off', 'paused']) assert.deepEqual(await next(id), ['confirm', null], id)
  await assertSound(bench)
})

/** Polls, and confirms everything of these amounts as bought whole. */
async function reportBought(service: Service, amounts: readonly string[]): Promise<void> {
  for (const { execution_id, amount_usd } of [...(await poll(service)).values()].flat())
    if (amounts.includes(String(amount_usd)))
      await succeed(
        service,
        'POST',
        confirmPath(String(execution_id)),
        fill(`o-${execution_id}`, String(amount_usd)),
      )
}
