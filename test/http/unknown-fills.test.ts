// Confirmations of executions that the ledger does not know: answered as ever, and what was bought is kept.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { command, shell } from '../levers/steps.ts'
import { errorOf, fill, startService } from '../support/service.ts'
import { assertSound, confirmPath, plan, sendFirst, succeed } from './steps.ts'

const UNKNOWN = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'

test('the answer for an unknown execution is the same byte for byte, whoever has it, and a purchase is kept', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [mine = ''] = (await sendFirst(service, ['p'])).values()
  const bolt = { key: await service.issueKey('bolt', 'live') }
  const test = { key: await service.issueKey('acme', 'test') }
  const answers = []
  for (const [id, options] of [
    [UNKNOWN, {}],
    [mine, bolt],
    [mine, test],
    ['exec_of another kind', {}],
  ] as const) {
    const response = await fetch(service.url + confirmPath(id), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${'key' in options ? options.key : service.key}`,
        'x-request-id': 'one',
      },
      body: JSON.stringify(fill('o1', '10.00')),
    })
    const headers = [...response.headers].filter(([name]) => name !== 'date')
    answers.push([response.status, headers, await response.text()])
  }
  for (const answer of answers) assert.deepEqual(answer, answers[0])
  assert.equal(answers[0]?.[2], '{"detail":"Execution not found."}')
  // A failure moved no money.
  await service.call('POST', confirmPath(UNKNOWN), { partner_order_id: 'o2', status: 'failed' })
  const kept = JSON.parse(await shell(service, ['--json', 'execution', 'late-fills']))
  assert.equal(kept.length, 1)
  const [{ execution_id, partner_slug, environment, partner_plan_id, status, reason }] = kept
  assert.deepEqual(
    [execution_id, partner_slug, environment, partner_plan_id, status, reason],
    [UNKNOWN, 'acme', 'live', null, null, 'execution_not_found'],
  )
  assert.match(await shell(service, ['execution', 'late-fills']), /o1 .*execution_not_found/)
  assert.match((await command(service, ['status'])).out, /1 reported and refused, and not decided on/)
})

test('an operator says which plan it was for, and from then on it is an execution like any other', async (t) => {
  const service = await startService(t, { environment: 'live' })
  await sendFirst(service, ['p'])
  await plan(service, 'p', 'lost')
  const report = fill('o1', '10.00')
  assert.equal((await service.call('POST', confirmPath(UNKNOWN), report)).status, 404)
  const accept = ['execution', 'accept-late', UNKNOWN]
  const nameless = await command(service, ['--json', ...accept])
  assert.deepEqual([nameless.code, errorOf(nameless.err).code], [2, 'usage'])
  assert.equal((await command(service, [...accept, '--plan', 'nobody'])).code, 4)
  const made = JSON.parse(
    await shell(service, ['--json', ...accept, '--plan', 'lost', '--reason', 'on their books']),
  )
  assert.deepEqual(
    [made.execution_id, made.partner_plan_id, made.usd_amount, made.executed_at],
    [UNKNOWN, 'lost', '10.00', '2026-01-05T00:00:00.000Z'],
  )
  assert.equal((await succeed(service, 'POST', confirmPath(UNKNOWN), report)).replayed, true)
  const [summary] = JSON.parse(await shell(service, ['--json', 'billing', 'show', '--month', '2026-01']))
  assert.deepEqual([summary.volume_usd, summary.trade_count], ['10.00', 1])
  await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
  await shell(service, ['check'])
  assert.equal((await command(service, [...accept, '--plan', 'lost'])).code, 2)
  const [audited] = JSON.parse(await shell(service, ['--json', 'audit', '--partner', 'acme'])).slice(-1)
  assert.deepEqual(
    [audited.action, audited.detail.partner_plan_id, audited.detail.reason],
    ['execution.accept-late', 'lost', 'on their books'],
  )
  await assertSound(service)
})
