// Clients that send a byte now and then, of a head or of a body, and bodies in the smallest pieces: they are ended in
// time, and delay nobody.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { type Conversation, chunk, converse, exchange, head, LAST_CHUNK, statuses } from '../http/raw.ts'
import { assertSound, succeed, USERS } from '../http/steps.ts'
import { startService, USER } from '../support/service.ts'

const ME = '/partner/v1/me'
const EVERY_MS = 500
/** How often the limits are looked at, the leave that follows, and a slow machine. */
const LATE_MS = 2_000 + 2_000 + 4_000
const HEAD_MS = 10_000
const WHOLE_MS = 30_000
/** What somebody else's call may take meanwhile. */
const OTHERS_MS = 3_000

const dribbling = new Set<Conversation['socket']>()

/** Begins with `start` and then sends `more` again and again; resolves with how long the service let it. */
async function dribble(t: TestContext, url: string, start: string, more: string): Promise<Dribbled> {
  const client = await converse(url)
  dribbling.add(client.socket)
  client.socket.write(start)
  const sending = setInterval(() => client.socket.writable && client.socket.write(more), EVERY_MS)
  t.after(() => {
    clearInterval(sending)
    client.socket.destroy()
  })
  const from = performance.now()
  await client.ended
  return { client, tookMs: performance.now() - from }
}

type Dribbled = { client: Conversation; tookMs: number }

test('a client that sends its head or its body by the byte is told 408 and let go', async (t) => {
  const service = await startService(t)
  const { url, key } = service
  const chunked = head('POST', USERS, key, ['Transfer-Encoding: chunked'])
  const slow = {
    'a head': { work: dribble(t, url, 'GET /partner/v1/me HTTP/1.1\r\nX: ', 'x'), limitMs: HEAD_MS },
    'a body of a stated length': {
      work: dribble(t, url, head('POST', USERS, key, ['Content-Length: 1000']), ' '),
      limitMs: WHOLE_MS,
    },
    'a body in chunks': { work: dribble(t, url, chunked, chunk(' ')), limitMs: WHOLE_MS },
    'the extension of a chunk': { work: dribble(t, url, `${chunked}1;`, 'x'), limitMs: WHOLE_MS },
    'the trailer of a body': { work: dribble(t, url, `${chunked}0\r\nX: `, 'x'), limitMs: WHOLE_MS },
  }
  let areOver = false
  const all = Promise.all(Object.values(slow).map(({ work }) => work)).finally(() => {
    areOver = true
  })
  while (!areOver) {
    const from = performance.now()
    await succeed(service, 'GET', ME)
    const tookMs = performance.now() - from
    // The service waits for its connections before it stops: a test that fails here lets them go first.
    if (tookMs >= OTHERS_MS) for (const socket of dribbling) socket.destroy()
    assert.ok(tookMs < OTHERS_MS, `somebody else is answered at once, not after ${tookMs} ms`)
    await Promise.race([all, wait(EVERY_MS)])
  }
  for (const [what, { work, limitMs }] of Object.entries(slow)) {
    const { client, tookMs } = await work
    assert.deepEqual(statuses(client.received()), [408], what)
    assert.ok(tookMs >= limitMs && tookMs <= limitMs + LATE_MS, `${what}: ${tookMs} ms`)
  }
  await assertSound(service)
})

test('a body of a byte for each chunk is read, and one that never ends is refused at its limit', async (t) => {
  const service = await startService(t)
  const { url, key } = service
  const chunked = head('POST', USERS, key, ['Transfer-Encoding: chunked'])
  const text = JSON.stringify({ ...USER, padding: 'y'.repeat(50_000) })
  const byTheByte = [...text].map(chunk).join('')
  const from = performance.now()
  assert.equal((await exchange(url, [chunked, byTheByte, LAST_CHUNK])).status, 200)
  assert.equal((await exchange(url, [chunked, chunk(' ').repeat(70_000)])).status, 413)
  const trailers = `${LAST_CHUNK.slice(0, -2)}${'X: x\r\n'.repeat(20_000)}\r\n`
  assert.equal((await exchange(url, [chunked, chunk(JSON.stringify(USER)), trailers])).status, 431)
  t.diagnostic(`${Math.round(performance.now() - from)} ms`)
  await succeed(service, 'GET', ME)
})
