// tranche health, as a container's health check runs it, beside a service. A real one is asked in serve.process.test.ts
// and file.process.test.ts.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { test } from 'node:test'
import { listen, runHere } from '../support/service.ts'

test('a service is up or ready when it says so, and not when it fails, wants a token or says nothing in time', async (t) => {
  const answering = (status: number) =>
    listen(
      t,
      createServer((_, response) => response.writeHead(status).end()),
    )
  const servers = [
    answering(200),
    answering(200),
    answering(503),
    answering(401),
    listen(t, createTcpServer()),
  ]
  const asked = await Promise.all(
    servers.map(async (server, i) => {
      const port = String((await server).port)
      return runHere(['health', '--port', port, ...(i % 2 === 1 ? ['--ready'] : [])])
    }),
  )
  assert.deepEqual(
    asked.map(({ code, out }) => [code, out.trim().replace(/^.*?: /, '')]),
    [
      [0, 'ok'],
      [0, 'ok'],
      [1, 'HTTP 503'],
      [1, 'HTTP 401'],
      [1, 'no answer within 3 s'],
    ],
  )
})
