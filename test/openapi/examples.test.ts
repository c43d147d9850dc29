// The examples of request bodies in the API description: the service takes each of them as it stands.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import {
  confirmPath,
  link,
  PLANS,
  plan,
  sendFirst,
  succeed,
  USERS,
  userPath,
  WEBHOOKS,
} from '../http/steps.ts'
import { startService } from '../support/service.ts'
import { DESCRIPTION } from './described.ts'

/** The bodies of an operation's examples, by name. */
function examplesOf(operationId: string): [name: string, body: object][] {
  const operations = Object.values(DESCRIPTION.paths).flatMap((methods) => Object.values(methods))
  const operation = operations.find((one) => one.operationId === operationId)
  const { examples = {} } = operation?.requestBody?.content['application/json'] ?? {}
  return Object.entries(examples).map(([name, { value }]) => [name, value as object])
}

/** What sends an example: in a service of its own, in which whatever the example is about exists. */
const SENT: Record<string, (t: TestContext, body: object) => Promise<{ status?: string }>> = {
  linkUser: async (t, body) => succeed(await startService(t), 'POST', USERS, body),
  setUserStatus: async (t, body) => {
    const service = await startService(t)
    await link(service, 'user-1')
    return succeed(service, 'PATCH', userPath('user-1'), body)
  },
  putPlan: async (t, body) => {
    const service = await startService(t)
    await link(service, 'user-1')
    await plan(service, 'user-1', 'plan-1')
    return succeed(service, 'POST', PLANS, body)
  },
  confirmExecution: async (t, body) => {
    const service = await startService(t)
    const [id = ''] = (await sendFirst(service, ['plan-1'])).values()
    return succeed(service, 'POST', confirmPath(id), body)
  },
  registerWebhook: async (t, body) => {
    // The address of the example is nobody's, so no name server knows it.
    const guard = { checkUrl: async () => {} }
    return succeed(await startService(t, { more: () => ({ guard }) }), 'POST', WEBHOOKS, body)
  },
}

for (const [operationId, send] of Object.entries(SENT)) {
  test(`every example of ${operationId} is accepted, with what it asks for`, async (t) => {
    const examples = examplesOf(operationId)
    assert.notEqual(examples.length, 0)
    for (const [name, body] of examples) {
      const answer = await send(t, body)
      if ('status' in body) assert.equal(answer.status, body.status, name)
    }
  })
}

test('every operation with a body is among them', () => {
  const operations = Object.values(DESCRIPTION.paths).flatMap((methods) => Object.values(methods))
  const withBody = operations.filter(({ requestBody }) => requestBody).map((one) => one.operationId)
  assert.deepEqual(withBody.sort(), Object.keys(SENT).sort())
})
