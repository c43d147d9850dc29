// The API description itself: generated from every route, clean under a public linter, identical at every address, with
// examples that the service accepts.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { EVENT_NAME } from '../../src/core/webhook.ts'
import { ERROR_CODES, ERROR_STATUS } from '../../src/http/error-codes.ts'
import { ANYWHERE } from '../../src/http/openapi/document.ts'
import { ANY_REFUSAL, BODY_REFUSALS } from '../../src/http/openapi/examples.ts'
import { OPERATIONS } from '../../src/http/openapi/route-descriptions.ts'
import { ROUTES } from '../../src/http/routes.ts'
import { machineAt } from '../../src/machine.ts'
import {
  confirmPath,
  link,
  PLANS,
  PRICE,
  plan,
  poll,
  succeed,
  USERS,
  userPath,
  WEBHOOKS,
} from '../http/steps.ts'
import { runHere, startService, T0 } from '../support/service.ts'
import { startReceiver, startStage } from '../webhook/stage.ts'
import { assertValid, DESCRIPTION, type Description, type Schema } from './described.ts'

const RECORD = join(import.meta.dirname, '../../fixtures/openapi/openapi.json')

test('every route is described, and nothing else is', () => {
  const routes = ROUTES.map(({ method, path }) => `${method} ${path}`)
  assert.deepEqual(Object.keys(OPERATIONS).sort(), routes.sort())
})

test('every code is a refusal of some operation, but for calls that reach none', () => {
  const named = new Set<string>([...ANYWHERE, ...BODY_REFUSALS])
  for (const { refusals = [] } of Object.values(OPERATIONS)) for (const code of refusals) named.add(code)
  assert.deepEqual(
    ERROR_CODES.filter((code) => !named.has(code)),
    ['method_not_allowed', 'request_timeout', 'expectation_failed', 'misdirected', 'headers_too_large'],
  )
})

test('it is clean under the strictest rules of the linter', async () => {
  const config = await createConfig({ extends: ['recommended-strict'] })
  const source = JSON.stringify(DESCRIPTION)
  const problems = await lintFromString({ source, absoluteRef: 'openapi.json', config })
  const told = problems.map(
    ({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`,
  )
  assert.deepEqual(told, [])
})

test('every body has examples, and each has the shape of its schema', () => {
  const operations = Object.values(DESCRIPTION.paths).flatMap((methods) => Object.values(methods))
  const bodies = operations.flatMap(({ operationId, requestBody, responses }) => [
    ...(requestBody ? [[operationId, requestBody] as const] : []),
    ...Object.entries(responses).map(([status, response]) => [`${operationId} ${status}`, response] as const),
  ])
  const wakeUps = Object.entries(DESCRIPTION.webhooks).map(
    ([event, { post }]) => [event, post.requestBody] as const,
  )
  for (const [what, { content }] of [...bodies, ...wakeUps]) {
    const { schema, examples = {} } = content['application/json']
    assert.notEqual(Object.keys(examples).length, 0, `${what} has an example`)
    for (const [name, { value }] of Object.entries(examples))
      assertValid(schema.$ref, value, `${what} ${name}`)
  }
})

test('every text, list and whole number in it has a bound', () => {
  const unbounded: string[] = []
  let seen = 0
  const look = (node: unknown, path: string): void => {
    if (node === null || typeof node !== 'object') return
    const { type, maxLength, maxItems, minimum, maximum, ...rest } = node as Record<string, unknown>
    const types = [type].flat()
    if (types.includes('string') && maxLength === undefined && !('enum' in rest || 'const' in rest))
      unbounded.push(path)
    if (types.includes('array') && maxItems === undefined) unbounded.push(path)
    if (types.includes('integer') && (minimum === undefined || maximum === undefined)) unbounded.push(path)
    if (type !== undefined) seen += 1
    for (const [name, inner] of Object.entries(node))
      if (!/^examples?$/.test(name)) look(inner, `${path}/${name}`)
  }
  look(DESCRIPTION, '')
  assert.ok(seen > 200, `${seen} schemas`)
  assert.deepEqual(unbounded, [])
})

test('no schema uses `not`, of which some generators make no type; an id that is dots is refused all the same', () => {
  assert.ok(!JSON.stringify(DESCRIPTION).includes('"not":'))
  for (const { properties = {} } of ['UserRequest', 'PlanRequest'].map(
    (name) => DESCRIPTION.components.schemas[name] ?? {},
  )) {
    const { partner_user_id: id } = properties as Record<string, Schema>
    const pattern = new RegExp(String(id?.pattern), 'u')
    assert.equal(id?.type, 'string')
    for (const good of ['a', '...', '..a', 'a..', '. ', '/', '\u{1f600}']) assert.match(good, pattern)
    for (const bad of ['', '.', '..', 'a\n', '\u0085', '..\u0000']) assert.doesNotMatch(bad, pattern)
  }
})

test('the same from the service, without a key, and from the shell', async (t) => {
  const service = await startService(t)
  const response = await fetch(`${service.url}/openapi.json`)
  assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'application/json'])
  const text = await response.text()
  const { code, out } = await runHere(['openapi'], { machine: machineAt(T0).machine })
  assert.deepEqual([code, out], [0, `${text}\n`])
  assert.deepEqual(JSON.parse(text), DESCRIPTION)
  const wrong = await service.call('POST', '/openapi.json', {}, { key: null })
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'GET'])
})

// UPDATE=1 rewrites it. A change of this file is a change of the promise to partners: see the page on compatibility
// before committing it.
test('the description is the one on record', () => {
  const { info, ...rest } = DESCRIPTION as typeof DESCRIPTION & { info: object }
  const text = `${JSON.stringify({ ...rest, info: { ...info, version: '0' } }, null, 2)}\n`
  if (process.env.UPDATE) writeFileSync(RECORD, text)
  else assert.equal(text, readFileSync(RECORD, 'utf8'))
})

test('the page of the API leaves out nothing that an operation says, and says what all share once', async (t) => {
  const { url } = await startService(t)
  const shown = (await (await fetch(`${url}/docs/description.json`)).json()) as Description & {
    info: { description: string }
    servers: unknown
  }
  const { info, servers, paths, components, ...rest } = shown
  assert.deepEqual(rest, { ...rest, webhooks: DESCRIPTION.webhooks })
  // The page has a field of its own for a key.
  assert.deepEqual({ ...DESCRIPTION.components, ...components }, DESCRIPTION.components)
  assert.ok(!('securitySchemes' in components) && !('security' in rest))
  assert.deepEqual(servers, [{ url: '..' }], 'the service beside the page')
  assert.deepEqual(Object.keys(paths), Object.keys(DESCRIPTION.paths))
  const shared: string[] = [...ANY_REFUSAL, ...BODY_REFUSALS]
  for (const code of shared) assert.ok(info.description.includes(`\`${code}\``), code)
  for (const [path, methods] of Object.entries(DESCRIPTION.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const own = paths[path]?.[method] ?? assert.fail(`${method} ${path}`)
      assert.deepEqual(own.requestBody, operation.requestBody)
      assert.deepEqual(own.responses['200']?.content, operation.responses['200']?.content)
      for (const [status, { content, headers }] of Object.entries(operation.responses)) {
        if (status === '200') continue
        const told = String(Object(own.responses[status]).description ?? '')
        const { 'X-Error-Code': header } = headers
        assert.ok(header && 'schema' in header)
        // A code can have a meaning for every call, and another for this operation.
        for (const code of header.schema.enum as string[])
          assert.ok(`${told} ${info.description}`.includes(`\`${code}\``), `${method} ${path}: ${code}`)
        const examples = Object.entries(content['application/json'].examples ?? {})
        for (const [code, { value }] of examples) {
          const { detail } = value as { detail: string | { msg: string }[] }
          const isShared = shared.includes(code)
          if (typeof detail === 'string') assert.equal(told.includes(`\`${detail}\``), !isShared, detail)
          else for (const { msg } of detail) assert.ok(`${told} ${info.description}`.includes(msg), msg)
        }
      }
    }
  }
  for (const name of ['X-Request-Id', 'X-Ignored-Fields', 'X-Error-Code'])
    assert.equal(JSON.stringify(paths).includes(name), false, name)
  assert.match(JSON.stringify(paths), /X-Due-Remaining/)
})

test('the table of errors in the guide has every code, with its status', () => {
  const guide = readFileSync(join(import.meta.dirname, '../../docs/api.md'), 'utf8')
  const rows = [...guide.matchAll(/^\| `(\w+)` \| (\d{3}) \|/gm)].map(([, code, status]) => [
    code,
    Number(status),
  ])
  assert.deepEqual(rows, Object.entries(ERROR_STATUS))
})

// The examples of request bodies in the API description: the service accepts each of them unchanged.

/** The bodies of an operation's examples, by name. */
function examplesOf(operationId: string): [name: string, body: object][] {
  const operations = Object.values(DESCRIPTION.paths).flatMap((methods) => Object.values(methods))
  const operation = operations.find((one) => one.operationId === operationId)
  const { examples = {} } = operation?.requestBody?.content['application/json'] ?? {}
  return Object.entries(examples).map(([name, { value }]) => [name, value as object])
}

const SANDBOX = '/partner/v1/sandbox'
/** Where the examples are sent; null stands for the confirmation of what is due. */
const SENT: Record<string, [method: string, path: string | null]> = {
  linkUser: ['POST', USERS],
  setUserStatus: ['PATCH', userPath('user-1')],
  putPlan: ['POST', PLANS],
  confirmExecution: ['POST', null],
  registerWebhook: ['POST', WEBHOOKS],
  testWebhook: ['POST', `${WEBHOOKS}/test`],
  advanceSandbox: ['POST', `${SANDBOX}/advance`],
  fireSandboxTranche: ['POST', `${SANDBOX}/fire`],
  resetSandbox: ['POST', `${SANDBOX}/reset`],
}

for (const [operationId, [method, path]] of Object.entries(SENT)) {
  test(`every example of ${operationId} is accepted, with what it asks for`, async (t) => {
    const examples = examplesOf(operationId)
    assert.notEqual(examples.length, 0)
    for (const [name, body] of examples) {
      // The address of the example does not exist, so no name server knows it.
      const guard = { checkUrl: async () => {} }
      const service = await startService(t, { more: () => ({ guard }) })
      await succeed(service, 'POST', WEBHOOKS, { url: 'https://127.0.0.1/' })
      await link(service, 'user-1')
      await plan(service, 'user-1', 'plan-1')
      await service.tick(PRICE)
      const [[due] = []] = (await poll(service)).values()
      const answer = await succeed(service, method, path ?? confirmPath(String(due?.execution_id)), body)
      if ('status' in body) assert.equal(answer.status, body.status, name)
    }
  })
}

test('every operation with a body is among them', () => {
  const operations = Object.values(DESCRIPTION.paths).flatMap((methods) => Object.values(methods))
  const withBody = operations.filter(({ requestBody }) => requestBody).map((one) => one.operationId)
  assert.deepEqual(withBody.sort(), Object.keys(SENT).sort())
})

// The wake-up in the API description, against the one that a receiver really gets.

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
  const { schema } = requestBody.content['application/json']
  assertValid(schema.$ref, JSON.parse(sent.raw.toString()), EVENT_NAME)
  const own = Object.keys(sent.headers).filter((name) => name.startsWith('x-'))
  assert.deepEqual(own.sort(), parameters.map(({ name }) => name.toLowerCase()).sort())
  for (const { name, schema } of parameters) {
    const value = String(sent.headers[name.toLowerCase()])
    if (schema.const !== undefined) assert.equal(value, schema.const, name)
    else assert.match(value, new RegExp(String(schema.pattern)), name)
  }
})
