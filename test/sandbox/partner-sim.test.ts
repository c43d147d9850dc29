// partner-sim against the real service: what it confirms, whom it refuses to be, how it ends.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { createPartner } from '../../src/cli/trial/simulated-partner.ts'
import { price } from '../../src/core/money.ts'
import { DAY_MS } from '../../src/core/time.ts'
import { assertSound, executionsOf, PRICE } from '../http/steps.ts'
import { listen } from '../support/service.ts'
import { keyIn, startSim } from './bench.ts'

test('a day is worked off at the given rates, a JSON line each', async (t) => {
  const bench = await startSim(t)
  await bench.goAhead(await bench.tenant('acme', 'test'), 20 * DAY_MS, PRICE)
  const { code, out, err } = await bench.sim(
    ...['--price', PRICE, '--part', '0.3', '--fail', '0.2', '--fill', '0.4', '--once', '--json'],
  )
  assert.equal(code, 0, err)
  const lines: Record<string, string>[] = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const executions = await executionsOf(bench, 'p1')
  assert.equal(lines.length, executions.length)
  const counts = Object.groupBy(lines, ({ status }) => status ?? '')
  for (const status of ['filled', 'partial', 'failed', 'silent'])
    assert.ok((counts[status]?.length ?? 0) > 0, `some are ${status}`)
  for (const { execution_id, status } of lines) {
    const stored = executions.find(({ executionId }) => executionId === execution_id)
    assert.equal(stored?.status, status === 'silent' ? 'sent' : status)
  }
  await assertSound(bench)

  // What it was silent about comes again once its lease is over, and is answered then.
  await bench.goAhead(await bench.tenant('acme', 'test'), 5 * 60_000)
  const again = await bench.sim('--price', PRICE, '--fail', '0', '--part', '0', '--once')
  assert.match(
    again.out,
    /^(p1 exec_[0-9a-f]{32} filled \d+\.\d\d of \d+\.\d\d USD, 0\.\d{8} BTC at 60000\.00\n)+$/,
  )
  assert.ok((await executionsOf(bench, 'p1')).every(({ status }) => !['sent', 'pending'].includes(status)))
})

test('the same seed decides the same', async (t) => {
  const tales = []
  for (let i = 0; i < 2; i++) {
    const bench = await startSim(t)
    await bench.goAhead(await bench.tenant('acme', 'test'), 5 * DAY_MS, PRICE)
    const { out } = await bench.sim('--price', PRICE, '--part', '0.4', '--seed', '7', '--once')
    tales.push(out.replaceAll(/exec_\w+/g, ''))
  }
  assert.deepEqual(tales[0], tales[1])
})

test('what it confirms at once is told in the order of the instructions, and told although one is refused', async (t) => {
  const due = ['exec_1', 'exec_2', 'exec_3'].map((id) => ({
    execution_id: id,
    partner_plan_id: 'p1',
    amount_usd: '10.00',
    delivered_count: 1,
  }))
  // The first is answered last, and the second with an error.
  const server = createServer(async ({ url = '' }, response) => {
    if (url.includes('exec_1')) await setTimeout(100)
    response.statusCode = url.includes('exec_2') ? 500 : 200
    response.end(JSON.stringify(url.endsWith('/due') ? due : {}))
  })
  const { port } = await listen(t, server)
  const told: string[] = []
  const partner = createPartner({
    url: `http://127.0.0.1:${port}`,
    key: 'any',
    quote: () => price(PRICE),
    chance: () => 0.5,
    manners: { partial: 0, failed: 0, silent: 0, answerLost: 0 },
    onOutcome: ({ execution_id, status }) => told.push(`${execution_id} ${status}`),
  })
  const instructions = await partner.poll()
  await assert.rejects(partner.work(instructions), /exec_2\/confirm was answered 500/)
  assert.deepEqual(told, ['exec_1 filled', 'exec_3 filled'])
  assert.equal(partner.tally.filled, 2)
})

test('it refuses to be whom it is not told to be, and to spend real money', async (t) => {
  const bench = await startSim(t)
  const live = keyIn(bench.folder, 'live.key', await bench.issueKey('acme', 'live'))
  const bolt = keyIn(bench.folder, 'bolt.key', await bench.issueKey('bolt', 'test'))
  const none = keyIn(bench.folder, 'none.key', 'hunter2')
  const cases: [argv: string[], code: number, said: RegExp][] = [
    [['--key-file', live], 2, /live key.*--live/],
    [['--key-file', bolt], 2, /belongs to bolt/],
    [['--key-file', none], 1, /holds no API key/],
    [['--key-file', join(bench.folder, 'missing')], 4, /There is no file/],
    [['--fill', '0.9', '--part', '0.2'], 2, /more than 1/],
    [['--part', '1.5'], 2, /from 0 to 1/],
    [['--url', 'ftp://127.0.0.1'], 2, /address of the service/],
    [['--every', '5s'], 2, /cannot be used with/],
    [['--url', 'http://127.0.0.1:1'], 1, /did not say whose key this is/],
  ]
  for (const [argv, code, said] of cases) {
    const outcome = await bench.sim('--price', PRICE, '--once', ...argv)
    assert.equal(outcome.code, code, `${argv}: ${outcome.err}`)
    assert.match(outcome.err, said)
    assert.doesNotMatch(outcome.err, /hunter2|sse_live_|sse_test_/)
  }
  assert.match((await bench.sim('--once')).err, /No price is stored/)
  assert.equal((await bench.sim('--price', PRICE, '--once', '--key-file', live, '--live')).code, 0)
})
