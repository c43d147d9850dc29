// Reports of purchases that break a rule, or whose execution nobody knows: the answer refuses them, they are stored,
// and an operator records or dismisses them. The result of each is in test/core/late-fill.test.ts.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { quoted } from '../../src/core/text.ts'
import { command, shell } from '../levers/steps.ts'
import { errorOf, fill, type Service, startService } from '../support/service.ts'
import { assertSound, confirmPath, type Json, plan, sendFirst, succeed } from './steps.ts'

/** The number of reports that wait for a decision, according to status and check. */
async function waiting(service: Service): Promise<[status: number, check: number]> {
  const status = JSON.parse(await shell(service, ['--json', 'status']))
  const { findings } = JSON.parse(await shell(service, ['--json', 'check']))
  const found = findings.find(({ kind }: Json) => kind === 'late_fills')
  assert.equal(
    found?.mend,
    found && `tranche --db ${quoted(service.file)} docs 'levers#a-fill-that-was-refused'`,
  )
  return [status.late_fills_undecided, Number(/^\d+/.exec(found?.message ?? '0')?.[0])]
}

test('all kept reports of an execution are dismissed together, and each decision has its reason', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [id = ''] = (await sendFirst(service, ['p'])).values()
  await succeed(service, 'POST', confirmPath(id), { partner_order_id: 'o1', status: 'failed' })
  for (const order of ['o1', 'o2', 'o3', 'o4'])
    await service.call('POST', confirmPath(id), fill(order, '2.00'))
  const accept = ['execution', 'accept-late', id, '--reason', 'on their statement', '--report']
  const dismiss = ['execution', 'dismiss-late', id, '--reason', 'an error of typing']
  await shell(service, [...accept, '2'])
  assert.equal((await command(service, [...dismiss, '--all', '--report', '3'])).code, 2)
  assert.deepEqual(await waiting(service), [3, 3], 'none was dismissed unnamed')
  await shell(service, [...dismiss, '--all'])
  await shell(service, [...accept, '3'])
  const json = JSON.parse(await shell(service, ['--json', 'execution', 'show', id]))
  assert.deepEqual(
    json.late_fills.map((late: Json) => [late.report_id, late.accepted_at !== null, late.decision_reason]),
    [
      [1, false, 'an error of typing'],
      [2, true, 'on their statement'],
      [3, true, 'on their statement'],
      [4, false, 'an error of typing'],
    ],
  )
  await assertSound(service)
})

// Confirmations of executions that the ledger does not know: answered as usual, and the purchases are stored.

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
  assert.match((await command(service, ['status'])).out, /1 reported and refused, and waiting for a decision/)
})

test('what is only counted of unknown executions is ended by the command that the finding names', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const found = async (): Promise<Json | undefined> =>
    JSON.parse(await shell(service, ['--json', 'check'])).findings.find(
      ({ kind }: Json) => kind === 'late_fills',
    )
  // More dollars than the ledger's integers hold.
  const vast = fill('o1', '99999999999999.00')
  for (let time = 0; time < 2; time++)
    assert.equal((await service.call('POST', confirmPath(UNKNOWN), vast)).status, 404)
  const { message } = ((await found()) ?? {}) as Record<string, string>
  const next = 'execution dismiss-late --partner acme --env live --reason TEXT'
  assert.match(
    `${message}`,
    /^2 reported .* not kept \(of executions that are not known\): ask the partner, then `tr/,
  )
  assert.ok(`${message}`.endsWith(`\`tranche ${next}\``), `${message}`)
  const dismiss = (...more: string[]) => command(service, ['--json', 'execution', 'dismiss-late', ...more])
  const why = ['--reason', 'an error of typing']
  for (const wrong of [
    [],
    [UNKNOWN, '--partner', 'acme'],
    [UNKNOWN, '--env', 'live'],
    ['--partner', 'acme', '--all'],
  ])
    assert.equal((await dismiss(...wrong, ...why)).code, 2, wrong.join(' '))
  assert.equal((await dismiss('--partner', 'acme', '--env', 'test', ...why)).code, 4)
  assert.equal((await dismiss('--partner', 'nobody', ...why)).code, 4)
  const { code, out } = await dismiss('--partner', 'acme', ...why)
  assert.deepEqual(
    [code, JSON.parse(out)],
    [0, { partner_slug: 'acme', environment: 'live', unkept_reports: 2, reason: 'an error of typing' }],
  )
  assert.equal(await found(), undefined)
  assert.equal((await dismiss('--partner', 'acme', ...why)).code, 4)
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
  assert.equal((await command(service, [...accept, '--plan', 'lost'])).code, 2)
  await assertSound(service)
})
