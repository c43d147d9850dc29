// Several processes on one file while a sandbox moves.

import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { DAY_MS } from '../../src/core/time.ts'
import { TOTAL_TIMEOUT_MS } from '../../src/webhook/send.ts'
import { assertSound, executionsOf, link, PRICE, plan } from '../http/steps.ts'
import { temporaryFolder } from '../support/database.ts'
import { start } from '../support/process.ts'
import { within } from '../support/within.ts'
import { type Answering, LOOPBACK, startReceiver, startStage } from '../webhook/stage.ts'
import { startBench } from './bench.ts'

test('an advance that is killed has gone less far, and can be repeated', async (t) => {
  const bench = await startBench(t)
  await link(bench, 'u1')
  await plan(bench, 'u1', 'p1')
  const cwd = temporaryFolder(t)
  const child = start(t, ['--db', bench.file, 'sandbox', 'advance', 'acme', '3000d'], { cwd })
  while ((await bench.store.listSandboxes()).length === 0) {
    assert.ok(!child.hasEnded(), child.err())
    await pause(5)
  }
  child.child.kill('SIGKILL')
  await child.ended
  const [sandbox] = await bench.store.listSandboxes()
  assert.ok(sandbox && sandbox.offsetMs < 3_000 * DAY_MS)
  await assertSound(bench)
  await bench.goAhead(sandbox.tenant, DAY_MS)
  const [after] = await bench.store.listSandboxes()
  assert.equal(after?.offsetMs, sandbox.offsetMs + DAY_MS)
  await assertSound(bench)
})

/** An advance, and the receiver that it wakes. */
async function startAdvance(t: TestContext, time: string, answer?: Answering) {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'), answer)
  await stage.register(receiver.port)
  await stage.addPlan('p1')
  const argv = ['sandbox', 'advance', 'acme', time, '--price', PRICE]
  const reach = ['--webhook-ca', stage.authority.caFile, '--webhook-allow-cidr', LOOPBACK]
  const advance = start(t, ['--db', stage.file, ...argv, ...reach], { cwd: temporaryFolder(t) })
  return { stage, receiver, advance }
}

/** An advance that takes minutes, at a moment when it has fired. */
async function startLong(t: TestContext, answer?: Answering) {
  const { stage, receiver, advance } = await startAdvance(t, '3000d', answer)
  while ((await executionsOf(stage, 'p1')).length < 10) {
    assert.ok(!advance.hasEnded(), advance.err())
    await pause(5)
  }
  return { stage, receiver, advance }
}

test('an advance that is interrupted wakes the partner for what it has fired, and says where the clock stands', async (t) => {
  const { stage, receiver, advance } = await startLong(t)
  advance.child.kill('SIGINT')
  assert.equal(await advance.ended, 130)
  assert.match(advance.err(), /^error: Interrupted; the clock keeps the time that it reached: .* status/)
  const [wakeUp] = receiver.received
  const fired = await executionsOf(stage, 'p1')
  assert.deepEqual(
    [receiver.received.length, JSON.parse(`${wakeUp?.raw}`).count, advance.out()],
    [1, fired.length, ''],
  )
  const [sandbox] = await stage.store.listSandboxes()
  assert.ok(sandbox && sandbox.offsetMs < 3_000 * DAY_MS)
  await assertSound(stage)
})

test('an advance that is interrupted while its partner is woken says what it has done, and exits 130', async (t) => {
  const asked = Promise.withResolvers<ServerResponse>()
  const { advance } = await startAdvance(t, '1d', asked.resolve)
  const response = await within(TOTAL_TIMEOUT_MS, 'its wake-up', asked.promise)
  advance.child.kill('SIGINT')
  // Not before the signal arrives: it would have ended a process that does not wait.
  await pause(50)
  response.writeHead(204).end()
  assert.equal(await advance.ended, 130)
  assert.match(advance.out(), /^webhooks_sent +1$/m)
})

test('the second interruption of an advance ends it at once, whatever its receiver does', async (t) => {
  const { receiver, advance } = await startLong(t, () => {})
  advance.child.kill('SIGINT')
  await within(TOTAL_TIMEOUT_MS, 'its wake-up', receiver.count(1))
  const at = performance.now()
  advance.child.kill('SIGINT')
  assert.equal(await advance.ended, 130)
  assert.ok(performance.now() - at < TOTAL_TIMEOUT_MS / 2)
})
