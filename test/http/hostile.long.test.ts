// Clients that speak no HTTP, or only half of it: whatever they send, the process lives, its other callers are served,
// and nothing is logged as a failure of ours.

import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createApp } from '../../src/http/app.ts'
import { listenOn } from '../../src/http/listen.ts'
import { machine } from '../../src/machine.ts'
import { makeCertificate } from '../support/certificate.ts'
import { notDelivered, recordingLog, startService, USER } from '../support/service.ts'
import { head } from './raw.ts'
import { USERS } from './steps.ts'

const ME = '/partner/v1/me'

/** An error nobody catches ends a process: here it is caught, and fails the test. */
function watchProcess(t: TestContext): unknown[] {
  const escaped: unknown[] = []
  const keep = (error: unknown): void => void escaped.push(error)
  process.on('uncaughtException', keep).on('unhandledRejection', keep)
  t.after(() => process.off('uncaughtException', keep).off('unhandledRejection', keep))
  return escaped
}

const open = (url: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port) }, () => resolve(socket))
    socket.once('error', reject)
  })

/** Writes the parts with a turn of the loop between them, then leaves in the requested manner. */
async function play(url: string, parts: readonly (string | Uint8Array)[], leave: Leave): Promise<void> {
  const socket = await open(url)
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.on('error', () => {}).resume()
  for (const part of parts) {
    if (socket.writable) await new Promise<void>((resolve) => socket.write(part, () => resolve()))
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (leave === 'reset') socket.resetAndDestroy()
  else if (leave === 'destroy') socket.destroy()
  else socket.end()
  await closed
}

type Leave = 'reset' | 'destroy' | 'end'
const LEAVES: readonly Leave[] = ['reset', 'destroy', 'end']

test('a client that asks for a tunnel behind a call and is gone before the answer harms nobody', async (t) => {
  const escaped = watchProcess(t)
  const service = await startService(t)
  const body = JSON.stringify(USER)
  const call = head('POST', USERS, service.key, [`Content-Length: ${body.length}`]) + body
  const text = call.repeat(20) + head('CONNECT', 'example.org:443', service.key)
  for (let round = 0; round < 20; round++)
    await Promise.all([1, 2, 3, 4].map(() => play(service.url, [text, 'x'], 'reset')))
  await new Promise((resolve) => setTimeout(resolve, 100))
  assert.deepEqual(escaped, [])
  assert.equal((await service.call('GET', ME)).status, 200)
})

test('an answer that fails outside the routes ends its own connection only', async (t) => {
  const escaped = watchProcess(t)
  let calls = 0
  const broken = {
    fetch: () => {
      calls += 1
      if (calls === 1) throw new Error('before it began')
      return Promise.reject(new Error('on its way'))
    },
  }
  const listener = await listenOn(broken, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
  t.after(() => listener.close())
  for (const _ of [1, 2]) await assert.rejects(fetch(listener.url))
  assert.equal(calls, 2)
  assert.deepEqual(escaped, [])
})

test('TLS: clients that never finish their handshake, or speak none, harm nobody', async (t) => {
  const escaped = watchProcess(t)
  const { store } = await startService(t)
  const { log, failures } = recordingLog()

  const guard = { checkUrl: async () => {} }
  const app = createApp({ store, machine, guard, send: notDelivered, log, rateLimit: null })
  const listener = await listenOn(app, {
    host: '127.0.0.1',
    port: 0,
    tls: makeCertificate(),
    uuid: machine.uuid,
  })
  for (const parts of [['GET / HTTP/1.1\r\n\r\n'], ['\u0016\u0003\u0001'], [new Uint8Array(500)]])
    for (const leave of LEAVES) await play(listener.url, parts, leave)
  const stuck = await open(listener.url)
  stuck.on('error', () => {})
  const gone = new Promise((resolve) => stuck.once('close', resolve))
  const closed = listener.close()
  listener.end()
  await Promise.all([closed, gone])
  assert.deepEqual(escaped, [])
  assert.deepEqual(failures(), [])
})
