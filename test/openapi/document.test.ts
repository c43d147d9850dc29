// The API description itself: made of every route, clean under a public linter, and the same wherever it is asked for.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { OPERATIONS } from '../../src/http/openapi/route-descriptions.ts'
import { ERROR_STATUS } from '../../src/http/refusal.ts'
import { ROUTES } from '../../src/http/routes.ts'
import { machineAt } from '../../src/machine.ts'
import { runHere, startService, T0 } from '../support/service.ts'
import { assertValid, DESCRIPTION } from './described.ts'

const RECORD = join(import.meta.dirname, '../../fixtures/openapi/openapi.json')

test('every route is described, and nothing else is', () => {
  const routes = ROUTES.map(({ method, path }) => `${method} ${path}`)
  assert.deepEqual(Object.keys(OPERATIONS).sort(), routes.sort())
})

test('it is clean under the strictest rules of the linter', async () => {
  const config = await createConfig({ extends: ['recommended-strict'] })
  const source = JSON.stringify(DESCRIPTION)
  const problems = await lintFromString({ source, absoluteRef: 'openapi.json', config })
  assert.deepEqual(
    problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`),
    [],
  )
})

test('the linter does notice', async () => {
  const config = await createConfig({ extends: ['recommended-strict'] })
  const broken = { ...DESCRIPTION, security: [{ nothing: [] }] }
  const problems = await lintFromString({
    source: JSON.stringify(broken),
    absoluteRef: 'openapi.json',
    config,
  })
  assert.notEqual(problems.length, 0)
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

test('no enum has a null among its values, which some generators cannot read', () => {
  const text = JSON.stringify(DESCRIPTION)
  assert.match(text, /"anyOf":\[\{"type":"string","enum":\["active","paused"\]\},\{"type":"null"\}\]/)
  assert.doesNotMatch(text, /"enum":\[[^\]]*null/)
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

// UPDATE=1 writes it anew. A change of this file is a change of what partners were promised: see the page on
// compatibility before it is committed.
test('the description is the one on record', () => {
  const { info, ...rest } = DESCRIPTION as typeof DESCRIPTION & { info: object }
  const text = `${JSON.stringify({ ...rest, info: { ...info, version: '0' } }, null, 2)}\n`
  if (process.env.UPDATE) writeFileSync(RECORD, text)
  else assert.equal(text, readFileSync(RECORD, 'utf8'))
})

test('the table of errors in the guide has every code, with its status', () => {
  const guide = readFileSync(join(import.meta.dirname, '../../docs/api.md'), 'utf8')
  const rows = [...guide.matchAll(/^\| `(\w+)` \| (\d{3}) \|/gm)].map(([, code, status]) => [
    code,
    Number(status),
  ])
  assert.deepEqual(rows, Object.entries(ERROR_STATUS))
})
