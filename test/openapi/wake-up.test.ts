// The wake-up in the API description: what a receiver is really sent.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EVENT_NAME } from '../../src/core/webhook.ts'
import { startReceiver } from '../webhook/receiver.ts'
import { startStage } from '../webhook/stage.ts'
import { assertValid, DESCRIPTION } from './described.ts'

test('a wake-up has the body and the headers of the description, and no other of its own', async (t) => {
  const { [EVENT_NAME]: described, ...others } = DESCRIPTION.webhooks
  assert.ok(described)
  assert.deepEqual(others, {})
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  await stage.register(receiver.port)
  await stage.addPlan('u1')
  assert.deepEqual(await stage.pass(), { sent: 1, failed: 0 })
  const [sent = assert.fail('nothing came')] = receiver.received
  const { requestBody, parameters } = described.post
  assertValid(
    requestBody.content['application/json'].schema.$ref,
    JSON.parse(sent.raw.toString()),
    EVENT_NAME,
  )
  const own = Object.keys(sent.headers).filter((name) => name.startsWith('x-'))
  assert.deepEqual(own.sort(), parameters.map(({ name }) => name.toLowerCase()).sort())
  for (const { name, schema } of parameters) {
    const value = String(sent.headers[name.toLowerCase()])
    if (schema.const !== undefined) assert.equal(value, schema.const, name)
    else assert.match(value, new RegExp(String(schema.pattern)), name)
  }
})
