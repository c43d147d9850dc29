// What `webhook listen` reads, from a service that means it no good.

import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createReader, Refused } from '../../src/cli/partners/webhook-listen.ts'
import { listen } from '../support/service.ts'

async function readerOf(t: TestContext, answer: RequestListener) {
  const { port } = await listen(t, createServer(answer))
  const ended = new AbortController()
  const trouble = Promise.withResolvers<string>()
  const reader = createReader({
    url: `http://127.0.0.1:${port}`,
    key: 'sse_test_key',
    chance: () => 0,
    signal: ended.signal,
    onTrouble: trouble.resolve,
    onRecovery: () => {},
  })
  t.after(() => ended.abort())
  return { reader, trouble: trouble.promise, ended }
}

test('an answer that does not end is refused, and takes no memory', async (t) => {
  let sent = 0
  const { reader } = await readerOf(t, (_, response) => {
    const piece = Buffer.alloc(1 << 20, ' ')
    const more = (): void => {
      do sent += piece.length
      while (response.write(piece))
    }
    response.on('drain', more).on('error', () => {})
    more()
  })
  await assert.rejects(
    reader.once('/me'),
    (error: Error) => error instanceof Refused && /longer than/.test(error.message),
  )
  assert.ok(sent < 64 << 20, `${sent} bytes were taken`)
})

test('a wait longer than a timer can hold is a long wait, not none at all', async (t) => {
  let asked = 0
  const { reader, trouble, ended } = await readerOf(t, (_, response) => {
    asked += 1
    response.writeHead(503, { 'retry-after': '99999999999' }).end()
  })
  const ending = assert.rejects(reader.patiently(() => reader.once('/me')))
  assert.match(await trouble, /trying again in 3600 s$/)
  await pause(300)
  ended.abort()
  await ending
  assert.equal(asked, 1)
})
