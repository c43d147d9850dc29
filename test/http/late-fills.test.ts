// Reports of purchases that break a rule, or whose execution nobody knows: the answer refuses them, they are stored,
// and an operator records or dismisses them. The result of each is in test/core/late-fill.test.ts, and what is kept in
// test/store/contract/purchases.ts.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { command, shell } from '../levers/steps.ts'
import { fill, startService } from '../support/service.ts'
import { confirmPath, type Json, sendFirst, succeed } from './steps.ts'

test('all kept reports of an execution are dismissed together only if that is said', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [id = ''] = (await sendFirst(service, ['p'])).values()
  await succeed(service, 'POST', confirmPath(id), { partner_order_id: 'o1', status: 'failed' })
  for (const order of ['o1', 'o2']) await service.call('POST', confirmPath(id), fill(order, '2.00'))
  const undecided = async () => JSON.parse(await shell(service, ['--json', 'status'])).late_fills_undecided
  const dismiss = ['execution', 'dismiss-late', id, '--reason', 'an error of typing']
  assert.equal((await command(service, [...dismiss, '--all', '--report', '2'])).code, 2)
  assert.equal((await command(service, dismiss)).code, 5)
  assert.equal(await undecided(), 2)
  await shell(service, [...dismiss, '--all'])
  assert.equal(await undecided(), 0)
})

// Confirmations of executions that the ledger does not know: answered as usual, and the purchases are stored.

const UNKNOWN = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'

test('the answer for an unknown execution is the same byte for byte, whoever has it, and a purchase is kept', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [mine = ''] = (await sendFirst(service, ['p'])).values()
  const bolt = await service.issueKey('bolt', 'live')
  const test = await service.issueKey('acme', 'test')
  const answers = []
  for (const [id, key] of [
    [UNKNOWN, service.key],
    [mine, bolt],
    [mine, test],
    ['exec_of another kind', service.key],
  ] as const) {
    const response = await fetch(service.url + confirmPath(id), {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'x-request-id': 'one' },
      body: JSON.stringify(fill('o1', '10.00')),
    })
    const headers = [...response.headers].filter(([name]) => name !== 'date')
    answers.push([response.status, headers, await response.text()])
  }
  for (const answer of answers) assert.deepEqual(answer, answers[0])
  assert.equal(answers[0]?.[2], '{"detail":"Execution not found."}')
  // A failure moved no money.
  await service.call('POST', confirmPath(UNKNOWN), { partner_order_id: 'o2', status: 'failed' })
  assert.equal(JSON.parse(await shell(service, ['--json', 'execution', 'late-fills'])).length, 1)
  assert.match(await shell(service, ['execution', 'late-fills']), /o1 .*execution_not_found/)
  assert.match((await command(service, ['status'])).out, /1 reported, refused and awaiting a decision/)
})

test('what is counted or kept of unknown executions is ended by commands that name its partner or its plan', async (t) => {
  const service = await startService(t, { environment: 'live' })
  await sendFirst(service, ['p'])
  const accept = ['execution', 'accept-late', UNKNOWN]
  const dismiss = ['execution', 'dismiss-late', '--reason', 'x']
  const codeOf = async (...argv: string[]) => (await command(service, ['--json', ...argv])).code
  const found = async (): Promise<Json | undefined> =>
    JSON.parse(await shell(service, ['--json', 'check'])).findings.find(
      ({ kind }: Json) => kind === 'late_fills',
    )
  // More dollars than the ledger's integers hold.
  const vast = fill('o1', '99999999999999.00')
  assert.equal((await service.call('POST', confirmPath(UNKNOWN), vast)).status, 404)
  const [, next = ''] =
    /`tranche (execution dismiss-late .*) TEXT`$/.exec(String((await found())?.message)) ?? []
  const ended = JSON.parse(await shell(service, ['--json', ...next.split(' '), 'x']))
  assert.deepEqual([ended.partner_slug, ended.environment, ended.unkept_reports], ['acme', 'live', 1])
  assert.equal(await found(), undefined)

  const report = fill('o1', '10.00')
  assert.equal((await service.call('POST', confirmPath(UNKNOWN), report)).status, 404)
  for (const wrong of [
    accept,
    dismiss,
    [...dismiss, UNKNOWN, '--partner', 'acme'],
    [...dismiss, UNKNOWN, '--env', 'live'],
    [...dismiss, '--partner', 'acme', '--all'],
  ])
    assert.equal(await codeOf(...wrong), 2, wrong.join(' '))
  assert.equal(await codeOf(...accept, '--plan', 'nobody'), 4)
  assert.equal(await codeOf(...dismiss, '--partner', 'nobody'), 4)
  await shell(service, [...accept, '--plan', 'p'])
  assert.equal((await succeed(service, 'POST', confirmPath(UNKNOWN), report)).replayed, true)
  assert.equal(await codeOf(...accept, '--plan', 'p'), 2)
})
