// Receivers that hang, at every step of a delivery, and one that never stops sending. All wait at once: the suite takes
// as long as the product's own limit.

import assert from 'node:assert/strict'
import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { suite, type TestContext, test } from 'node:test'
import type { Attempt } from '../../src/core/webhook.ts'
import { createResolve } from '../../src/webhook/address-guard.ts'
import { makeAuthority } from '../support/certificate.ts'
import {
  type Answering,
  deliverer,
  deliveryTo,
  HOST_NAME,
  startMute,
  startNameServer,
  startReceiver,
  TYPE_A,
} from './stage.ts'

const toPort = (port: number) => deliveryTo(`https://127.0.0.1:${port}/hook`)

/** Receivers whose answers never have a whole head. */
const RECEIVERS: Record<string, Answering> = {
  'at the headers': () => {},
  'with headers one at a time': (response) => {
    response.socket?.write('HTTP/1.1 200 OK\r\n')
    const drip = setInterval(() => response.socket?.write('x-a: 1\r\n'), 200)
    response.on('close', () => clearInterval(drip))
  },
  'with interim answers forever': (response) => {
    const drip = setInterval(() => response.socket?.write('HTTP/1.1 102 Processing\r\n\r\n'), 200)
    response.on('close', () => clearInterval(drip))
  },
}

async function assertUnanswered(attempt: Promise<Attempt>, says: RegExp): Promise<void> {
  const { statusCode, reason } = await attempt
  assert.equal(statusCode, null)
  assert.match(reason ?? 'delivered', says)
}

/** The outcome of a delivery to such a receiver. */
async function attemptAt(t: TestContext, answer: Answering) {
  const authority = makeAuthority(t)
  const receiver = await startReceiver(t, authority.issue('IP:127.0.0.1'), answer)
  const attempt = await deliverer({ caFile: authority.caFile })(toPort(receiver.port))
  assert.equal(receiver.received.length, 1)
  return attempt
}

const HANGING: Record<string, (t: TestContext) => Promise<void>> = {
  ...Object.fromEntries(
    Object.entries(RECEIVERS).map(([where, answer]) => [
      where,
      (t: TestContext) => assertUnanswered(attemptAt(t, answer), /no answer within 10 s/),
    ]),
  ),
  'at the body of a success': async (t) => {
    const { statusCode, reason } = await attemptAt(t, (response) => {
      response.writeHead(200, { 'content-length': 500 })
      response.write('{')
    })
    assert.deepEqual([statusCode, reason], [200, null])
  },
  'at the handshake': async (t) => {
    const mute = await startMute(t)
    await assertUnanswered(deliverer({})(toPort(mute.port)), /no connection within 5 s/)
    assert.equal(mute.connections(), 1)
  },
  'at the name server': async () => {
    const never = () => new Promise<string[]>(() => {})
    const attempt = deliverer({ resolve: never })(deliveryTo(`https://${HOST_NAME}/`))
    await assertUnanswered(attempt, /no connection within 5 s/)
  },
  'name servers that never answer hold up no other name and nothing else of the process': async (t) => {
    const { address } = await startNameServer(t, { 'good.example': { [TYPE_A]: [[1, 2, 3, 4]] } })
    const resolve = createResolve([address])
    async function endedMeanwhile(): Promise<number> {
      let ended = 0
      const silent = Array.from({ length: 20 }, (_, index) =>
        assert.rejects(resolve(`silent${index}.example`), /ETIMEOUT|no answer in time/).then(() => {
          ended += 1
        }),
      )
      assert.deepEqual(await resolve('good.example'), ['1.2.3.4'])
      await lookup('localhost')
      await readFile(import.meta.filename)
      const before = ended
      await Promise.all(silent)
      return before
    }
    // A process that gets no processor for seconds finds all of them over at once: it is called once more.
    if ((await endedMeanwhile()) > 0) assert.equal(await endedMeanwhile(), 0)
  },
}

suite('receivers and name servers that hang', { concurrency: true }, () => {
  for (const [name, run] of Object.entries(HANGING)) test(name, run)
})
