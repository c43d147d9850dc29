// tranche health, as a container's health check runs it, beside a service. A real one is asked in serve.process.test.ts
// and file.process.test.ts.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { createServer as createTcpServer, type Server } from 'node:net'
import { test } from 'node:test'
import { listen, runHere } from '../support/service.ts'

test('a service is up or ready when it says so, and not when it fails, wants a token or says nothing in time', async (t) => {
  const answering = (status: number) => createServer((_, response) => response.writeHead(status).end())
  const cases: [Server, flags: string[], code: number, said: string][] = [
    [answering(200), [], 0, 'ok'],
    [answering(200), ['--ready'], 0, 'ok'],
    [answering(503), [], 1, 'HTTP 503'],
    [answering(401), ['--ready'], 1, 'HTTP 401'],
    [createTcpServer(), [], 1, 'no answer within 3 s'],
  ]
  const asked = cases.map(async ([server, flags, ...expected]) => {
    const { port } = await listen(t, server)
    const { code, out } = await runHere(['health', '--port', String(port), ...flags])
    assert.deepEqual([code, out.trim().replace(/^.*?: /, '')], expected)
  })
  await Promise.all(asked)
})
