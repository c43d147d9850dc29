// Connections that open and say nothing, against a service with 256 descriptors, while its scheduler runs beside them.

import assert from 'node:assert/strict'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { makeCertificate } from '../support/certificate.ts'
import { PROGRAM, type Program, type Started, startServe } from '../support/process.ts'
import { me, withKey } from '../support/service.ts'

const DESCRIPTORS = 256
const SILENT = 300
/** The limit on what has not been said yet, how often it is looked at, the leave that follows, and a slow machine. */
const FREED_MS = 10_000 + 2_000 + 2_000 + 3_000

const LIMITED: Program = ['/bin/sh', '-c', `ulimit -n ${DESCRIPTORS} && exec "$@"`, 'sh', ...PROGRAM]
const TICKING = ['--tick-every', '1s', '--price-feed', 'static:60000']

async function openSilent(t: TestContext, url: string, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(url)
  const sockets = Array.from({ length: count }, () => connect({ host: hostname, port: Number(port) }))
  t.after(() => sockets.forEach((socket) => void socket.destroy()))
  // Some are turned away: that is the point of a limit.
  for (const socket of sockets) socket.on('error', () => {}).resume()
  await Promise.all(
    sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve).once('close', resolve))),
  )
  return sockets
}

/** How many descriptors the process has; where that cannot be seen, none. */
function descriptors({ child }: Started): number {
  const folder = `/proc/${child.pid}/fd`
  return existsSync(folder) ? readdirSync(folder).length : 0
}

const passes = ({ err }: Started): number => err().split('"msg":"tick"').length - 1

/** Until it answers again; the first answers may be cut off with the limit. */
async function answeredWithin(ms: number, call: () => Promise<number>): Promise<number> {
  const until = performance.now() + ms
  for (;;) {
    const status = await call().catch(() => null)
    if (status !== null) return status
    if (performance.now() > until) throw new Error(`no answer for ${ms} ms`)
    await wait(250)
  }
}

suite('silent connections', { concurrency: 2 }, () => {
  test('plain: they are answered 408, let go, and leave room for the database meanwhile', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, TICKING, { cwd, program: LIMITED })
    const before = descriptors(served)
    const sockets = await openSilent(t, served.url, SILENT)
    let first = ''
    sockets[0]?.on('data', (text) => {
      first += text
    })
    const passesBefore = passes(served)
    // They are all still open on this side.
    assert.equal(await answeredWithin(FREED_MS, async () => (await me(served.url, key)).status), 200)
    assert.ok(passes(served) > passesBefore + 5, 'the scheduler ran all the time')
    assert.match(first, /^HTTP\/1\.1 408 [\s\S]*\{"detail":"Request Timeout"\}$/)
    assert.ok(served.err().includes('connections are turned away'))
    assert.ok(!served.err().includes('"level":"error"'), served.err())
    await wait(2_500)
    assert.ok(descriptors(served) <= before + 10, `${before} descriptors, then ${descriptors(served)}`)
  })

  test('TLS: the same, whether they stay or leave', async (t) => {
    const { cwd, key } = await withKey(t)
    const certificate = makeCertificate()
    writeFileSync(join(cwd, 'c.pem'), certificate.cert)
    writeFileSync(join(cwd, 'k.pem'), certificate.key)
    const argv = [...TICKING, '--tls-cert', 'c.pem', '--tls-key', 'k.pem']
    const served = await startServe(t, argv, { cwd, program: LIMITED })
    const before = descriptors(served)
    const calling = () => meOverTls(served.url, key, certificate.cert)
    assert.equal(await calling(), 200)
    // Gone at once, and then half way through a handshake: neither may cost a descriptor.
    for (const socket of await openSilent(t, served.url, 100)) socket.end()
    for (const socket of await openSilent(t, served.url, 100)) {
      socket.write('\u0016\u0003\u0001')
      socket.end()
    }
    await wait(2_000)
    assert.ok(descriptors(served) <= before + 10, `${before} descriptors, then ${descriptors(served)}`)
    const passesBefore = passes(served)
    await openSilent(t, served.url, SILENT)
    assert.equal(await answeredWithin(FREED_MS, calling), 200)
    assert.ok(passes(served) > passesBefore + 5, 'the scheduler ran all the time')
    assert.ok(!served.err().includes('"level":"error"'), served.err())
    await wait(1_000)
    assert.ok(descriptors(served) <= before + 10, `${before} descriptors, then ${descriptors(served)}`)
  })
})

function meOverTls(url: string, key: string, ca: string): Promise<number> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host: hostname, port: Number(port), ca, timeout: 2_000 }, () => {
      socket.write(
        `GET /partner/v1/me HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`,
      )
    })
    socket.once('data', (text) => {
      resolve(Number(/^HTTP\/1\.1 (\d{3})/.exec(String(text))?.[1]))
      socket.destroy()
    })
    socket.on('error', reject).on('timeout', () => socket.destroy(new Error('no answer')))
    socket.on('close', () => reject(new Error('closed')))
  })
}
