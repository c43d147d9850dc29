// Calls whose key opens nothing: the short way refuses them in the same words as the long way that all others go.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeKey } from '../../src/core/key.ts'
import { machine } from '../../src/machine.ts'
import { startService } from '../support/service.ts'
import { exchange } from './raw.ts'

/** All of an answer that does not differ from call to call, its headers sorted. */
async function told(url: string, head: string, body = '') {
  const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`
  const text = `${head}\r\nHost: x\r\nConnection: close\r\n${length}\r\n${body}`
  const { status, headers, body: answer } = await exchange(url, [text])
  const fixed = [...headers].filter(([name]) => !['date', 'x-request-id'].includes(name))
  return { status, headers: fixed.sort(), answer }
}

test('the short way and the long way give the same answer', async (t) => {
  const service = await startService(t)
  const unknown = makeKey('live', machine.random)
  const mistyped = `${unknown.slice(0, -1)}${unknown.endsWith('a') ? 'b' : 'a'}`
  const headers = [
    '',
    'Authorization: Basic x',
    `Authorization: Bearer ${mistyped}`,
    `Authorization: Bearer ${unknown}`,
  ]
  for (const method of ['GET', 'POST', 'PATCH', 'DELETE', 'PUT'])
    for (const path of ['me', 'users/a', 'executions/x/confirm', 'nothing'])
      for (const header of headers) {
        const rest = header === '' ? '' : `\r\n${header}`
        const body = method === 'GET' ? '' : '{"a":1}'
        const short = await told(service.url, `${method} /partner/v1/${path} HTTP/1.1${rest}`, body)
        // An escape is unusual enough for the long way.
        const long = await told(service.url, `${method} /partner/v1/${path}%41 HTTP/1.1${rest}`, body)
        assert.equal(short.status, 401)
        assert.deepEqual(short, long, `${method} ${path} ${header}`)
      }
})

test('the long way sees everything but the key: what is public, odd, or opens something', async (t) => {
  const service = await startService(t)
  const status = async (head: string): Promise<number> => (await told(service.url, head)).status
  assert.equal(await status('GET /openapi.json HTTP/1.1'), 200)
  assert.equal(await status('GET /docs HTTP/1.1'), 200)
  assert.equal(await status('GET /partner/v1/me HTTP/1.1\r\nHost: y'), 400)
  assert.equal(await status('GET /partner/v1/me HTTP/1.1\r\nExpect: a-miracle'), 417)
  assert.equal(await status('HEAD /partner/v1/me HTTP/1.1'), 401)
  assert.equal(await status(`GET /partner/v1/me HTTP/1.1\r\nAuthorization: Bearer ${service.key}`), 200)
  assert.equal(await status(`GET /partner/v1/nothing HTTP/1.1\r\nAuthorization: Bearer ${service.key}`), 404)
})
