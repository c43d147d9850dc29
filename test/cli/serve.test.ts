// serve as a process: when it says it listens, how it stops, TLS, the scheduler inside it, and what its log holds.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { get as getTls } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { makeCertificate } from '../certificate.ts'
import { PLAN, temporaryFolder, USER } from '../harness.ts'
import { finish, start, startServe } from '../process.ts'
import { openShell } from './shell.ts'

// Most of a test's time is a process that starts: several at once cost little more than one.
suite('serve', { concurrency: 4 }, () => {
  test('serve: ready when it says so, its log without secrets, SIGTERM ends it with 0', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [], { cwd })
    assert.match(served.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal((await me(served.url, key)).status, 200)
    assert.equal((await me(served.url, `${key.slice(0, -1)}x`)).status, 401)
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.equal(served.out(), '')
    const log = served.err()
    for (const line of log.trimEnd().split('\n')) assert.doesNotThrow(() => JSON.parse(line), line)
    assert.ok(log.includes('"route":"/partner/v1/me"'))
    assert.ok(!log.includes(key.slice('sse_test_'.length, -6)))
  })

  test('a port that is taken: exit 1, and the port is named', async (t) => {
    const cwd = temporaryFolder(t)
    const { url } = await startServe(t, [], { cwd })
    const { port } = new URL(url)
    const { code, out, err } = await finish(t, ['serve', '--port', port, '--json'], { cwd })
    assert.deepEqual([code, out], [1, ''])
    assert.ok(JSON.parse(err).error.message.includes(port), err)
  })

  test('TLS with a certificate of its own authority', async (t) => {
    const cwd = temporaryFolder(t)
    const { cert, key } = makeCertificate()
    writeFileSync(join(cwd, 'cert.pem'), cert)
    writeFileSync(join(cwd, 'key.pem'), key)
    const { url } = await startServe(t, ['--tls-cert', 'cert.pem', '--tls-key', 'key.pem'], { cwd })
    assert.match(url, /^https:/)
    const status = await new Promise((resolve, reject) => {
      getTls(`${url}/partner/v1/me`, { ca: cert, agent: false }, (answer) => {
        answer.resume()
        resolve(answer.statusCode)
      }).on('error', reject)
    })
    assert.equal(status, 401)
  })

  for (const [what, cert, key] of [
    ['is missing', null, null],
    ['is no certificate', 'not PEM', 'not PEM'],
  ] as const) {
    test(`a TLS file that ${what}: exit 1 with a message, and no port opened`, async (t) => {
      const cwd = temporaryFolder(t)
      if (cert !== null) writeFileSync(join(cwd, 'c.pem'), cert)
      if (key !== null) writeFileSync(join(cwd, 'k.pem'), key)
      const argv = ['serve', '--port', '0', '--tls-cert', 'c.pem', '--tls-key', 'k.pem', '--json']
      const { code, out, err } = await finish(t, argv, { cwd })
      assert.deepEqual([code, out], [1, ''])
      assert.match(JSON.parse(err).error.message, /\S/)
    })
  }

  test('--tick-every runs passes beside the API', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, ['--tick-every', '1s', '--price-feed', 'static:60000'], { cwd })
    for (const [path, body] of [
      ['users', USER],
      ['plans', PLAN],
    ] as const) {
      const headers = { authorization: `Bearer ${key}` }
      const answer = await fetch(`${served.url}/partner/v1/${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      })
      assert.equal(answer.status, 200)
    }
    const tick = JSON.parse(await served.line('"executions_created":1'))
    assert.equal(tick.msg, 'tick')
    assert.equal(tick.price_usd, '60000.00')
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
  })

  test('SIGTERM lets a call in flight finish, keeps no idle connection, and takes no new one', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [], { cwd })
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    assert.equal(await idle(served.url, agent), 401)
    const call = await halfSent(served.url, key)
    served.child.kill('SIGTERM')
    await served.line('stopping')
    await assert.rejects(me(served.url, key))
    assert.equal(await call.finish(), 200)
    assert.equal(await served.ended, 0)
  })

  for (const [first, second] of [
    ['SIGTERM', 'SIGTERM'],
    ['SIGINT', 'SIGINT'],
    ['SIGTERM', 'SIGINT'],
  ] as const) {
    test(`${first} and then ${second} ends a serve that waits, with 130`, async (t) => {
      const { cwd, key } = await withKey(t)
      const served = await startServe(t, [], { cwd })
      await halfSent(served.url, key)
      served.child.kill(first)
      await served.line('stopping')
      served.child.kill(second)
      assert.equal(await served.ended, 130)
    })
  }

  test('one SIGINT stops as gently, and exits 130', async (t) => {
    const served = await startServe(t, [], { cwd: temporaryFolder(t) })
    served.child.kill('SIGINT')
    assert.equal(await served.ended, 130)
    assert.ok(served.err().includes('"msg":"stopped"'))
  })

  test('--log-format pretty has colour only where it is wanted', async (t) => {
    const looks = async (argv: string[], env: Record<string, string>): Promise<boolean> => {
      const cwd = temporaryFolder(t)
      const pretty = start(t, ['serve', '--port', '0', '--log-format', 'pretty', ...argv], { cwd, env })
      await pretty.line('listening')
      return pretty.err().includes('\u001b')
    }
    const seen = await Promise.all([
      looks([], { FORCE_COLOR: '1' }),
      looks([], {}),
      looks([], { FORCE_COLOR: '1', NO_COLOR: '1' }),
      looks(['--no-color'], { FORCE_COLOR: '1' }),
    ])
    assert.deepEqual(seen, [true, false, false, false])
  })
})

const me = (url: string, key: string): Promise<Response> =>
  fetch(`${url}/partner/v1/me`, { headers: { authorization: `Bearer ${key}`, connection: 'close' } })

/** A folder with a database in it, where serve finds it by default, and a key. */
async function withKey(t: TestContext): Promise<{ cwd: string; key: string }> {
  const shell = openShell(t)
  assert.equal((await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])).code, 0)
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'test'])
  return { cwd: shell.folder, key: out.trim() }
}

/** Makes a call whose connection then stays open and idle. */
const idle = (url: string, agent: Agent): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const call = request(`${url}/partner/v1/me`, { agent }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode))
    })
    call.on('error', reject).end()
  })

/** A call the service has begun to read: it has been told to go on, and half of the body is still to come. */
function halfSent(url: string, key: string): Promise<{ finish: () => Promise<number> }> {
  const { hostname, port } = new URL(url)
  const body = JSON.stringify(USER)
  const socket = connect(Number(port), hostname)
  const head = [
    'POST /partner/v1/users HTTP/1.1',
    `Host: ${hostname}`,
    `Authorization: Bearer ${key}`,
    `Content-Length: ${body.length}`,
    'Expect: 100-continue',
  ]
  let received = ''
  const until = (pattern: RegExp): Promise<RegExpExecArray> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = pattern.exec(received)
        if (found) resolve(found)
      }
      socket.on('data', look).on('close', () => reject(new Error(`closed after ${received}`)))
      look()
    })
  socket.setEncoding('utf8').on('data', (text) => {
    received += text
  })
  // A service that is ended by force resets the connection; that is no failure of the test.
  socket.on('error', () => {})
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  return until(/^HTTP\/1\.1 100/).then(() => {
    socket.write(body.slice(0, 10))
    return {
      finish: async () => {
        socket.write(body.slice(10))
        const [, status] = await until(/HTTP\/1\.1 ([2-5]\d\d)/)
        return Number(status)
      },
    }
  })
}
