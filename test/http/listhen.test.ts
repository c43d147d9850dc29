// What listhen is asked for, and what it must not do: it makes the server, and leaves ports, signals and closing to us.

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect } from 'node:net'
import { test } from 'node:test'
import { listenOn } from '../../src/http/listen.ts'
import { makeServer } from '../../src/http/tls.ts'
import { machine } from '../../src/machine.ts'
import { makeCertificate } from '../support/certificate.ts'

const answering = { fetch: () => new Response('there') }
const EVENTS = ['connection', 'secureConnection', 'request', 'close', 'error', 'listening', 'clientError']
const listenersOf = (server: Server): Record<string, number> =>
  Object.fromEntries(EVENTS.map((event) => [event, server.listenerCount(event)]))

test('its server is a server of Node, closed, with nobody else listening to its events', async () => {
  const handle = (): void => {}
  const certificate = makeCertificate()
  const plain = await makeServer(handle, null)
  const tls = await makeServer(handle, certificate)
  assert.deepEqual(listenersOf(plain.server), listenersOf(createServer(handle)))
  assert.deepEqual(listenersOf(tls.server), listenersOf(createTlsServer(certificate, handle)))
  assert.deepEqual([plain.server.listening, tls.server.listening], [false, false])
  assert.deepEqual([plain.cert, tls.cert], [null, certificate.cert])
})

test('it takes no signal, no setting of a hosting platform, and no other port', async (t) => {
  const signals = ['exit', 'SIGINT', 'SIGTERM', 'SIGHUP']
  const before = signals.map((name) => process.listenerCount(name))
  // What a hosting platform may set, and listhen would read.
  Object.assign(process.env, { HOST: '0.0.0.0', PORT: '1' })
  t.after(() => {
    delete process.env.HOST
    delete process.env.PORT
  })
  const listener = await listenOn(answering, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
  t.after(() => listener.close())
  assert.deepEqual(
    signals.map((name) => process.listenerCount(name)),
    before,
  )
  assert.match(listener.url, /^http:\/\/127\.0\.0\.1:\d+$/)
  assert.equal(await (await fetch(listener.url)).text(), 'there')
  const { port } = new URL(listener.url)
  await assert.rejects(
    listenOn(answering, { host: '127.0.0.1', port: Number(port), tls: null, uuid: machine.uuid }),
    (error) => {
      assert.match(String(error), new RegExp(`Cannot listen on port ${port} of "127.0.0.1": it is taken`))
      return true
    },
  )
})

test('its end closes the port: nothing but the listener would keep a process alive', async () => {
  const listener = await listenOn(answering, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
  assert.equal(await (await fetch(listener.url)).text(), 'there')
  listener.end()
  await assert.rejects(fetch(listener.url), /fetch failed/)
  // After a close, too, as serve does it.
  await listener.close()
  listener.end()
})

test('a port that web clients refuse to call is bound all the same', async (t) => {
  // listhen would listen on 3000 instead.
  const listener = await listenOn(answering, {
    host: '127.0.0.1',
    port: 10_080,
    tls: null,
    uuid: machine.uuid,
  })
  t.after(() => listener.close())
  assert.equal(listener.url, 'http://127.0.0.1:10080')
  await new Promise<void>((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port: 10_080 }, () => {
      socket.destroy()
      resolve()
    })
    socket.on('error', reject)
  })
})

test('a certificate with remarks before it is taken, text that is not a certificate is not read as a file name', async () => {
  const { cert, key } = makeCertificate()
  const { cert: shown } = await makeServer(() => {}, { cert: `subject=acme\n${cert}`, key: `remark\n${key}` })
  assert.equal(shown, cert)
  const refusal = makeServer(() => {}, { cert: 'package.json', key })
  await assert.rejects(refusal, /must be PEM texts/)
})

test('a certificate made for a first try names the host and lasts a week', async () => {
  const { server, cert } = await makeServer(() => {}, {
    selfSignedFor: ['localhost', '127.0.0.1', '192.0.2.7'],
  })
  assert.ok('setSecureContext' in server)
  const { subjectAltName, validFromDate, validToDate, ca } = new X509Certificate(cert ?? '')
  assert.equal(subjectAltName, 'DNS:localhost, IP Address:127.0.0.1, IP Address:192.0.2.7')
  assert.equal(Math.round((validToDate.valueOf() - validFromDate.valueOf()) / 86_400_000), 7)
  assert.equal(ca, false)
})
