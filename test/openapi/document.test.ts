// The API description itself: made of every route, clean under a public linter, and the same wherever it is asked for.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { OPERATIONS } from '../../src/http/openapi/route-descriptions.ts'
import { ROUTES } from '../../src/http/routes.ts'
import { machineAt } from '../../src/machine.ts'
import { runHere } from '../support/command.ts'
import { startService, T0 } from '../support/service.ts'
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

test('every example of a refusal has the shape of its answer', () => {
  for (const operations of Object.values(DESCRIPTION.paths)) {
    for (const { operationId, responses } of Object.values(operations)) {
      for (const [status, { content }] of Object.entries(responses)) {
        const { schema, examples } = content['application/json']
        assert.ok(status === '200' || examples, `${operationId} ${status} has an example`)
        for (const [name, { value }] of Object.entries(examples ?? {})) {
          assertValid(schema.$ref, value, `${operationId} ${status} ${name}`)
        }
      }
    }
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

// UPDATE=1 writes it anew. A change of this file is a change of what partners were promised: see the page on
// compatibility before it is committed.
test('the description is the one on record', () => {
  const { info, ...rest } = DESCRIPTION as typeof DESCRIPTION & { info: object }
  const text = `${JSON.stringify({ ...rest, info: { ...info, version: '0' } }, null, 2)}\n`
  if (process.env.UPDATE) writeFileSync(RECORD, text)
  else assert.equal(text, readFileSync(RECORD, 'utf8'))
})
