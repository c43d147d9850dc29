// tranche health, as a container's health check runs it, beside the service.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { finish, startServe } from '../support/process.ts'
import { listen, runHere } from '../support/service.ts'

test('a running service is up, and one that has stopped is not', async (t) => {
  const cwd = temporaryFolder(t)
  const served = await startServe(t, [], { cwd })
  const env = { TRANCHE_PORT: new URL(served.url).port }
  assert.deepEqual(await finish(t, ['health'], { cwd, env }), { code: 0, out: 'ok\n', err: '' })
  const { code, out } = await runHere(['health', '--url', served.url, '--json'])
  assert.deepEqual([code, JSON.parse(out).ok], [0, true])
  assert.deepEqual(await runHere(['health', '--ready', '--url', served.url]), {
    code: 0,
    out: 'ok\n',
    err: '',
  })
  served.child.kill('SIGTERM')
  await served.ended
  const gone = await finish(t, ['health'], { cwd, env })
  assert.deepEqual([gone.code, gone.err], [1, ''])
  assert.match(gone.out, /\/healthz: the connection was refused \(ECONNREFUSED\)$/m)
})

test('a token that is wanted for it is not a sign of being ready', async (t) => {
  const guarded = await listen(
    t,
    createServer((_, response) => response.writeHead(401).end()),
  )
  const { code, out } = await runHere(['health', '--ready', '--port', String(guarded.port)])
  assert.equal(code, 1)
  assert.match(out, /HTTP 401$/m)
})

test('a service that fails, or says nothing in time, is not up', async (t) => {
  const failing = await listen(
    t,
    createServer((_, response) => response.writeHead(503).end()),
  )
  const silent = await listen(t, createTcpServer())
  const [failed, unanswered] = await Promise.all(
    [failing, silent].map(({ port }) => runHere(['health', '--port', String(port)])),
  )
  assert.deepEqual([failed?.code, unanswered?.code], [1, 1])
  assert.match(failed?.out ?? '', /HTTP 503$/m)
  assert.match(unanswered?.out ?? '', /no answer within 3 s$/m)
})
