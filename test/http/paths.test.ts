// Paths that a proxy reads one way and a URL another: a route is found under exactly its own name.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics, EXPOSITION_TYPE } from '../../src/http/metrics.ts'
import { createOps } from '../../src/http/ops/endpoints.ts'
import { startService } from '../support/service.ts'
import { exchange, head } from './raw.ts'
import { DUE, link, succeed, userPath } from './steps.ts'

const ME = '/partner/v1/me'

test('no way round leads to the ops endpoints, or to a route', async (t) => {
  const { url, key } = await startService(t, {
    more: (_, { clock }) => {
      const metrics = createMetrics()
      return {
        ops: createOps({ clock, metrics, exposition: EXPOSITION_TYPE, token: null }),
      }
    },
  })
  const status = async (target: string): Promise<number> =>
    (await exchange(url, [head('GET', target, key)])).status
  for (const target of ['/healthz', ME, `${ME}?x=..`, `http://127.0.0.1${ME}`])
    assert.equal(await status(target), 200, target)
  const detours = [
    ...['\\..\\..\\', '/../../', '/..\\../', '/%2e%2e/%2E%2E/', '/.%2e/%2e./', '/users/../../../'],
    ...['/..%2f..%2f', '/..%5c..%5c', '%2f..%2f..%2f', '/..;/..;/', '/./../../', '/..%252f..%252f'],
  ]
  const targets = [
    ...detours.flatMap((detour) => ['healthz', 'metrics'].map((name) => `/partner/v1${detour}${name}`)),
    ...[
      '/./healthz',
      '//healthz',
      '/\\healthz',
      '\\healthz',
      '/healthz/',
      '/healthz/.',
      '/%68ealthz',
      '/healthz#x',
    ],
    ...['/x/../healthz', '/x\\..\\healthz', '/%2e/healthz', 'http://127.0.0.1\\healthz', 'http:/\\x/healthz'],
    ...[`${ME}/`, `${ME}/.`, '/partner/v1/./me', '/partner\\v1\\me', '/partner%2fv1/me', '/partner/v1/m%65'],
    ...['/partner/v1/users/../me', `/x/..${DUE}`, '/partner/v1/executions\\due'],
  ]
  // What is not a request line is refused before anything else.
  for (const target of targets) assert.ok([404, 400].includes(await status(target)), target)
  for (const target of [
    '/partner/v1/..\\..\\metrics',
    '/partner/v1/../../metrics',
    '/partner/v1/%2e%2e/%2e%2e/metrics',
  ])
    assert.equal(await status(target), 404, target)
})

test('an id may hold what a path may not, in one segment and percent-encoded', async (t) => {
  const service = await startService(t)
  const ids = [
    'a/b',
    'a\\b',
    '../../metrics',
    '..\\..\\metrics',
    'a%2fb',
    '%',
    'a b',
    '\u00e9',
    'a?b#c',
    'user-1',
    '...',
  ]
  for (const id of ids) {
    await link(service, id)
    const answer = await succeed(service, 'PATCH', userPath(id), { status: 'disabled' })
    assert.equal(answer.partner_user_id, id)
  }
  // Also by a client that encodes more than it must.
  const path = `/partner/v1/users/%75ser%2D1`
  assert.equal((await succeed(service, 'PATCH', path, { status: 'disabled' })).partner_user_id, 'user-1')
})
