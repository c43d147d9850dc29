// serve as a process: its listening line, its log, its certificates, its operators, its signals, and its end.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, createServer, request, type ServerResponse } from 'node:http'
import { get } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect as connectTls, type PeerCertificate } from 'node:tls'
import { EXIT } from '../../src/cli/exit-codes.ts'
import { DAY_MS, formatInstant, type Instant, SECOND_MS } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import { makeCertificate } from '../support/certificate.ts'
import { addressIn, temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import {
  finish,
  type Program,
  SOURCE,
  type Started,
  start,
  startQuietServe,
  startServe,
  WITH_OPS,
} from '../support/process.ts'
import { callAt, halfSent, me, PLAN, runHere, serveRefused, USER, withKey } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { freePort, until } from '../support/within.ts'

// Most of a test's time is the start of a process: several at once cost little more than one.
suite('serve', { concurrency: 4 }, () => {
  test('ready when it says so, its port its own; SIGTERM ends it with 0, after the calls in flight, which are all logged', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [], { cwd, env: { TRANCHE_TICK_EVERY: 'off' } })
    assert.match(served.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal((await me(served.url, `${key.slice(0, -1)}x`)).status, 401)
    assert.equal((await fetch(`${served.url}/readyz`)).status, 200)
    const { port } = new URL(served.url)
    const second = await finish(t, ['serve', '--port', port, '--json'], { cwd })
    assert.deepEqual([second.code, second.out], [1, ''])
    assert.ok(JSON.parse(second.err).error.message.includes(port), second.err)
    // An idle connection, and calls that end just before the stop and after it.
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    assert.equal(await idle(served.url, agent), 401)
    const call = await halfSent(served.url, key)
    const last = Array.from({ length: 60 }, () => me(served.url, key))
    for (const { status } of await Promise.all(last)) assert.equal(status, 200)
    served.child.kill('SIGTERM')
    await served.line('stopping')
    await assert.rejects(me(served.url, key))
    assert.equal(await call.finish(), 200)
    assert.deepEqual([await served.ended, served.out()], [0, ''])
    const log = served.err()
    const lines = log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    // Those for operators have none at the usual level.
    assert.equal(lines.filter(({ msg }) => msg === 'request').length, 2 + last.length + 1)
    assert.equal(lines.at(-1).msg, 'stopped')
    assert.ok(!log.includes(key.slice('sse_test_'.length, -6)))
    assert.match(log, /"tick_every_ms":null/)
    assert.doesNotMatch(log, /"msg":"tick"/)
  })

  test('--log-level warn leaves out what is as usual', async (t) => {
    const { cwd } = await withKey(t)
    const { url, child, ended, err } = await startQuietServe(t, ['--log-level', 'warn'], { cwd })
    assert.equal((await fetch(`${url}/partner/v1/me`)).status, 401)
    child.kill('SIGTERM')
    assert.deepEqual([await ended, err()], [0, ''])
  })

  // Each also turns off the colours of a pretty log that would have them.
  for (const [second, argv, env] of [
    ['SIGINT', ['--no-color'], { FORCE_COLOR: '1' }],
    ['SIGTERM', [], { FORCE_COLOR: '1', NO_COLOR: '1' }],
  ] as const) {
    test(`SIGINT and then ${second} ends a serve that waits, with 130`, async (t) => {
      const { cwd, key } = await withKey(t)
      const { served, url } = await startPretty(t, argv, { cwd, env })
      await halfSent(url, key)
      served.child.kill('SIGINT')
      await served.line('stopping')
      served.child.kill(second)
      assert.equal(await served.ended, 130)
      assert.ok(!served.err().includes('\u001b'))
    })
  }

  test('--log-format pretty has one line for each call; one SIGINT stops as gently, and exits 130', async (t) => {
    const { cwd, key } = await withKey(t)
    const { served, url } = await startPretty(t, [], { cwd })
    assert.equal((await me(url, key)).status, 200)
    assert.match(
      await served.line('request'),
      /^\[[\d:]+\] INFO: request method=GET route=\/partner\/v1\/me partner_slug=acme environment=test status=200 duration_ms=[\d.]+$/,
    )
    assert.equal(served.err().trimEnd().split('\n').length, 2)
    served.child.kill('SIGINT')
    assert.equal(await served.ended, 130)
    assert.match(served.err(), /INFO: stopped\n$/)
  })
})

/** Starts a serve that logs for people. */
async function startPretty(t: TestContext, argv: readonly string[], where: Parameters<typeof start>[2]) {
  const served = start(t, ['serve', '--port', '0', '--log-format', 'pretty', ...argv], where)
  const [url = ''] = /http:[\w./:]+/.exec(await served.line('listening')) ?? []
  return { served, url }
}

/** Makes a call whose connection then stays open and idle. */
const idle = (url: string, agent: Agent): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const call = request(`${url}/partner/v1/me`, { agent }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode))
    })
    call.on('error', reject).end()
  })

// Signals other than those that stop it: none ends serve, and none opens a debugger. SIGHUP's effect on a certificate
// is tested below.

const CHECKOUT: Program = [join(import.meta.dirname, '../../bin/tranche')]
const INSPECTOR_PORT = 9_229

const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port }, () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })

suite('signals', { concurrency: 3 }, () => {
  test('SIGUSR1, SIGUSR2 and SIGHUP leave a service running, without a debugger', async (t) => {
    // Another process on this machine may be being debugged.
    const wasListening = await isListening(INSPECTOR_PORT)
    const { child, url, err } = await startServe(t, [], { cwd: temporaryFolder(t) })
    for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGUSR1'] as const) {
      child.kill(signal)
      await pause(200)
      assert.equal((await fetch(`${url}/healthz`)).status, 200, signal)
    }
    assert.doesNotMatch(err(), /Debugger/i)
    assert.equal(await isListening(INSPECTOR_PORT), wasListening)
  })

  for (const [what, program] of [
    ['the source', SOURCE],
    ['a checkout', CHECKOUT],
  ] as const)
    test(`SIGUSR1 leaves a command of ${what} running, without a debugger`, async (t) => {
      const wasListening = await isListening(INSPECTOR_PORT)
      const service = createServer().listen(0, '127.0.0.1')
      t.after(() => service.close())
      await once(service, 'listening')
      const argv = ['health', '--port', String((service.address() as AddressInfo).port)]
      const env = { PATH: process.env.PATH ?? '' }
      const { child, ended, err } = start(t, argv, { cwd: temporaryFolder(t), program, env })
      // While it waits for an answer.
      const [, response] = (await once(service, 'request')) as [unknown, ServerResponse]
      for (let sent = 0; sent < 2; sent++) {
        child.kill('SIGUSR1')
        await pause(200)
      }
      assert.equal(await isListening(INSPECTOR_PORT), wasListening)
      response.end()
      assert.deepEqual([await ended, err()], [0, ''])
    })
})

// The log of a whole session of serve with its own scheduler: the lines it has, and the data it must not have.

/** Values that nothing else could bring into a log by accident. */
const MARKS = {
  user: 'mark-user-7261',
  email: 'mark-email-1182@example.org',
  provider: 'mark-provider-9923',
  consent: 'mark-consent-4410',
  plan: 'mark-plan-5527',
  amount: '7351.17',
  order: 'mark-order-6634',
  reason: 'mark-reason-8845',
  hook: 'https://127.0.0.1:9/mark-hook-2290',
  cursor: 'mark-cursor-3371',
  broken: 'mark-broken-7718',
  stranger: 'mark-stranger-token-0042',
}

suite('the log of serve', () => {
  test('one JSON line a request, and in none a key, a secret, or anything of a body or a query', async (t) => {
    const { cwd, key } = await withKey(t)
    const argv = ['--tick-every', '1s', '--price-feed', 'static:60000', '--webhook-allow-cidr', '127.0.0.0/8']
    const served = await startServe(t, [...argv, '--log-level', 'debug'], { cwd })
    const calls: number[] = []
    const call = async (method: string, path: string, body?: object | string, bearer = key) => {
      const answer = await callAt({ url: served.url, key: bearer }, method, path, body)
      calls.push(answer.status)
      return answer.body
    }

    await call('POST', 'users', {
      partner_user_id: MARKS.user,
      email: MARKS.email,
      auth_provider: MARKS.provider,
      consent_accepted: true,
      consent_version: MARKS.consent,
      consent_timestamp: '2026-01-01T00:00:00Z',
    })
    const { secret } = await call('POST', 'webhooks', { url: MARKS.hook })
    assert.match(secret, /^sse_whsec_/)
    const plan = { partner_user_id: MARKS.user, partner_plan_id: MARKS.plan, amount_usd: MARKS.amount }
    await call('POST', 'plans', { ...plan, frequency: 'daily' })
    const tick = JSON.parse(await served.line('"executions_created":1'))
    assert.deepEqual([tick.msg, tick.price_usd], ['tick', '60000.00'])
    const [due] = await call('GET', 'executions/due')
    const report = { partner_order_id: MARKS.order, status: 'failed', failure_reason: MARKS.reason }
    await call('POST', `executions/${due.execution_id}/confirm`, report)
    await call('PATCH', `users/${MARKS.user}`, { status: 'disabled' })
    await call('GET', `billing/monthly/users?month=2026-01&cursor=${MARKS.cursor}`)
    await call('POST', 'plans', `{"${MARKS.broken}`)
    await call('POST', 'plans', { ...plan, frequency: MARKS.broken })
    await call('GET', `${MARKS.broken}`)
    await call('GET', 'me', undefined, MARKS.stranger)
    assert.equal((await fetch(`${served.url}/healthz`)).status, 200)
    await served.line('"route":"/healthz"')
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)

    const log = served.err()
    const values = [...Object.values(MARKS), new URL(MARKS.hook).pathname, key, secret]
    for (const value of [...values, key.slice(9, -6), secret.slice(10)])
      assert.ok(!log.includes(value), `${value} is in the log`)
    const lines = log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const requests = lines.filter(({ msg }) => msg === 'request')
    assert.deepEqual(
      requests.map(({ status }) => status),
      calls,
    )
    const fields = 'level time request_id method route partner_slug environment status duration_ms msg'
    for (const { content_type, error_code, ...line } of requests) {
      assert.equal(error_code === undefined, line.status === 200, line.route)
      assert.equal(Object.keys(line).join(' '), fields)
      assert.ok(content_type === undefined || line.status === 422, content_type)
    }
  })
})

// serve as its operators see it: its metrics, its token, and a stop that nothing can delay.

suite('serve and its operators', { concurrency: 4 }, () => {
  test('what cron does shows in the metrics of serve, of which promtool has no complaint; nothing puts off its end', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [...WITH_OPS, '--drain-limit', '1s'], { cwd })
    assert.equal((await fetch(`${served.url}/metrics`)).status, 401)
    const place = new URL(served.opsUrl).host
    const taken = await finish(t, ['serve', '--port', '0', '--ops-listen', place], { cwd })
    assert.deepEqual([taken.code, taken.out], [1, ''])
    assert.match(
      taken.err,
      /Cannot listen on port \d+ of "127\.0\.0\.1": it is taken; stop what listens there, or choose another port \(EADDRINUSE\)\./,
    )
    for (const [path, body] of [
      ['users', USER],
      ['plans', PLAN],
    ] as const)
      assert.equal((await callAt({ url: served.url, key }, 'POST', path, body)).status, 200)
    const metrics = async () => readExposition(await (await fetch(`${served.opsUrl}/metrics`)).text())
    const created = 'tranche_executions_created_total{environment="test"}'
    assert.equal((await metrics()).value(created), 0)
    assert.ok(!(await metrics()).has('tranche_last_tick_age_seconds'), 'a fresh install pages nobody')
    assert.equal((await finish(t, ['tick', '--price', '60000'], { cwd })).code, 0)
    const after = await metrics()
    assert.equal(after.value(created), 1)
    assert.equal(after.value('tranche_ticks_total{result="finished"}'), 1)
    assert.ok(after.value('tranche_last_tick_age_seconds') < 3600)
    const input = await (await fetch(`${served.opsUrl}/metrics`)).text()
    // A call that stalls for longer than the drain limit does not keep serve alive.
    await halfSent(served.url, key)
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.match(served.err(), /"waited_ms":1000,"msg":"stopped with calls still in flight"/)
    assert.ok(served.err().includes('"msg":"stopped"'))
    if (hasTool(t, 'promtool')) execFileSync('promtool', ['check', 'metrics'], { input, stdio: 'pipe' })
  })

  test('--ops-token-file: a file without a token stops it, one with a token is what opens', async (t) => {
    const cwd = temporaryFolder(t)
    const weak = ['a'.repeat(32), '0110'.repeat(8), 'passwordpassword', '1234567890123456']
    for (const wrong of ['secret', 'sse_live_0123456789abcdef', `${'a'.repeat(20)} b`, ...weak]) {
      writeFileSync(join(cwd, 'wrong'), `${wrong}\n`)
      const refused = await serveRefused(cwd, '--ops-token-file', join(cwd, 'wrong'))
      assert.equal(refused.code, 2)
      assert.ok(!refused.err.includes(wrong), refused.err)
    }
    // A listener of its own needs a token where others can reach it.
    const open = await serveRefused(cwd, '--ops-listen', '0.0.0.0:0')
    assert.equal(open.code, 2)
    assert.match(open.err, /--ops-listen 0\.0\.0\.0.* needs --ops-token-file/)
    const token = 'opensesame-7c1f0a94b3'
    writeFileSync(join(cwd, 'token'), `${token}\n`)
    const argv = ['--ops-token-file', 'token', '--ops-listen', '0.0.0.0:0']
    const served = await startServe(t, argv, { cwd, env: { TRANCHE_OPS_LISTEN: 'off' } })
    const opsUrl = served.opsUrl.replace('0.0.0.0', '127.0.0.1')
    const headers = { authorization: `Bearer ${token}` }
    for (const url of [served.url, opsUrl]) {
      assert.equal((await fetch(`${url}/metrics`)).status, 401)
      assert.equal((await fetch(`${url}/metrics`, { headers })).status, 200)
      assert.equal((await fetch(`${url}/healthz`)).status, 200)
    }
    for (let i = 0; i < 25; i++)
      await fetch(`${served.url}/metrics`, { headers: { authorization: `Bearer ${i}` } })
    await served.line('somebody may be guessing the ops token')
    for (const url of [served.url, opsUrl])
      assert.equal((await fetch(`${url}/metrics`, { headers })).status, 200)
    assert.ok(!served.err().includes(token))
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
  })
})

// serve over TLS as a process: certificates from files, which SIGHUP reloads, and one that is made for a first try.

/** Whether anybody could connect to a port of this machine before a process ended. */
async function wasOpen(port: number, { hasEnded }: Started): Promise<boolean> {
  while (!hasEnded()) {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return true
    await pause(10)
  }
  return false
}

suite('serve over TLS', { concurrency: 4 }, () => {
  test('with a certificate of its own authority; SIGHUP shows new clients the one that is in the files now', async (t) => {
    const cwd = temporaryFolder(t)
    const write = (certFile: string, keyFile: string): string => {
      const { cert, key } = makeCertificate()
      writeFileSync(join(cwd, certFile), cert)
      writeFileSync(join(cwd, keyFile), key)
      return cert
    }
    const cert = write('c.pem', 'k.pem')
    const served = await startServe(t, ['--tls-cert', 'c.pem', '--tls-key', 'k.pem'], { cwd })
    const shown = async () => (await certificateOf(served.url)).fingerprint256
    assert.match(served.url, /^https:/)
    assert.equal(await statusOf(`${served.url}/partner/v1/me`, cert), 401)
    // On this machine, a health check asks whatever name the certificate is for.
    const url = served.url.replace('127.0.0.1', 'localhost')
    assert.equal((await runHere(['health', '--url', url])).out, 'ok\n')
    const env = { TRANCHE_PORT: new URL(url).port, TRANCHE_TLS_CERT: 'c.pem' }
    assert.equal(
      (await finish(t, ['health'], { cwd, env })).out,
      'ok\n',
      'with the settings of the service alone',
    )
    const first = await shown()
    write('c.pem', 'k.pem')
    assert.equal(await shown(), first, 'not before it is told')
    served.child.kill('SIGHUP')
    const renewed = JSON.parse(await served.line('new connections get the new one'))
    const second = await shown()
    assert.notEqual(second, first)
    assert.partialDeepStrictEqual(renewed, {
      sha256: second,
      names: 'IP Address:127.0.0.1',
      serial: '01',
      not_after: '2049-12-31T23:59:59.000Z',
      changed: true,
    })
    served.child.kill('SIGHUP')
    assert.equal(JSON.parse(await served.line('the one that was shown before')).changed, false)
    // A certificate that is only half replaced, or gone, changes nothing.
    write('c.pem', 'other.pem')
    served.child.kill('SIGHUP')
    await served.line('--tls-key: k.pem is not the key of the first certificate in c.pem.')
    assert.equal(await shown(), second)
    writeFileSync(join(cwd, 'c.pem'), 'nothing')
    served.child.kill('SIGHUP')
    await served.line('--tls-cert: c.pem has no certificate in PEM')
    assert.equal(await shown(), second)
    // A pipe would block every start.
    rmSync(join(cwd, 'c.pem'))
    execFileSync('mkfifo', [join(cwd, 'c.pem')])
    served.child.kill('SIGHUP')
    await served.line('Cannot read c.pem: it is not a regular file')
    assert.equal(await shown(), second)
  })

  test('how long it is good is in the log, the metrics and status: a share of its life, and when it has ended', async (t) => {
    const cwd = temporaryFolder(t)
    const lasting = (days: number): number => {
      const second = Math.floor(machine.clock() / SECOND_MS) * SECOND_MS
      const ends = (second + days * DAY_MS) as Instant
      const { cert, key } = makeCertificate(ends)
      writeFileSync(join(cwd, 'c.pem'), cert)
      writeFileSync(join(cwd, 'k.pem'), key)
      return ends / SECOND_MS
    }
    let ends = lasting(-1)
    const argv = ['--tls-cert', 'c.pem', '--tls-key', 'k.pem', '--ops-listen', '127.0.0.1:0']
    const served = await startServe(t, argv, { cwd })
    const { ops_url: opsUrl } = JSON.parse(await served.line('listening'))
    /** The result is stored in the database as well as logged. */
    const isSeen = (...kinds: string[]) =>
      until(10_000, String(kinds), async () => {
        const { findings } = JSON.parse((await runHere(['--db', addressIn(cwd), 'status', '--json'])).out)
        const metrics = await (await fetch(`${opsUrl}/metrics`)).text()
        const shown = /^tranche_tls_certificate_not_after_seconds (\S+)$/m.exec(metrics)?.[1]
        return (
          String(findings.map(({ kind }: { kind: string }) => kind)) === String(kinds) &&
          Number(shown) === ends
        )
      })
    const said = JSON.parse(await served.line('TLS with this certificate'))
    assert.deepEqual([said.level, said.msg.split('; ')[1]], ['error', 'it has ended, and clients refuse it'])
    await isSeen('certificate_ends')
    // Their validity began in 2020.
    for (const [days, level, kinds] of [
      [100, 'warn', ['certificate_ends']],
      [3_000, 'info', []],
    ] as const) {
      ends = lasting(days)
      served.child.kill('SIGHUP')
      const notAfter = `"not_after":"${formatInstant((ends * SECOND_MS) as Instant)}"`
      assert.equal(JSON.parse(await served.line(notAfter)).level, level)
      await isSeen(...kinds)
    }
  })

  test('a pipe at the start is waited for, and said to be', async (t) => {
    const cwd = temporaryFolder(t)
    const { cert, key } = makeCertificate()
    writeFileSync(join(cwd, 'c.pem'), cert)
    execFileSync('mkfifo', [join(cwd, 'k.pem')])
    const argv = ['--port', '0', '--tls-cert', 'c.pem', '--tls-key', 'k.pem']
    const started = start(t, ['serve', ...argv], { cwd })
    await started.line('Waiting for k.pem, which is a pipe')
    writeFileSync(join(cwd, 'k.pem'), key)
    assert.match(await started.line('"msg":"listening"'), /https:/)
  })

  const [one, other] = [makeCertificate(), makeCertificate()]
  test('TLS files that are no use: a message, and no port opened', async (t) => {
    const cwd = temporaryFolder(t)
    const port = await freePort()
    const [certFile, keyFile] = [join(cwd, 'c.pem'), join(cwd, 'k.pem')]
    const argv = ['--tls-cert', certFile, '--tls-key', keyFile, '--json']
    for (const [cert, key, said] of [
      [null, null, /c\.pem/],
      ['not PEM', one.key, /^--tls-cert: \S+c\.pem has no certificate/],
      [
        '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
        one.key,
        /^--tls-cert: \S+c\.pem has no certificate/,
      ],
      [one.cert, one.cert, /^--tls-key: \S+k\.pem has no private key/],
    ] as const) {
      if (cert !== null) writeFileSync(certFile, cert)
      if (key !== null) writeFileSync(keyFile, key)
      const refused = await serveRefused(cwd, ...argv)
      assert.deepEqual([refused.code, refused.out], [cert === null ? EXIT.notFound : EXIT.usage, ''])
      assert.match(JSON.parse(refused.err).error.message, said)
    }
    writeFileSync(keyFile, other.key)
    const started = start(t, ['serve', '--port', String(port), ...argv], { cwd })
    assert.equal(await wasOpen(port, started), false)
    assert.deepEqual([await started.ended, started.out()], [EXIT.usage, ''])
    const { message } = JSON.parse(started.err()).error
    assert.equal(message, `--tls-key: ${keyFile} is not the key of the first certificate in ${certFile}.`)
    const both = await serveRefused(cwd, '--tls-self-signed', '--tls-cert', 'c.pem', '--json')
    assert.equal(both.code, EXIT.usage)
    assert.match(JSON.parse(both.err).error.message, /leave out --tls-cert/)
  })

  test('--tls-self-signed: TLS at once, no file but the database, the fingerprint in the log', async (t) => {
    const cwd = temporaryFolder(t)
    // An empty environment: no openssl, nor anything else, can be found.
    const served = await startServe(t, ['--tls-self-signed'], { cwd })
    const { sha256 } = JSON.parse(await served.line('certificate made for this start'))
    const shown = await certificateOf(served.url)
    assert.equal(shown.fingerprint256, sha256)
    // A client that trusts exactly this certificate can verify it, by its name and by its address.
    const pem = `-----BEGIN CERTIFICATE-----\n${shown.raw.toString('base64')}\n-----END CERTIFICATE-----\n`
    for (const host of ['localhost', '127.0.0.1'])
      assert.equal(await statusOf(`${served.url.replace('127.0.0.1', host)}/healthz`, pem), 200, host)
    assert.deepEqual(
      readdirSync(cwd).filter((name) => !name.startsWith('tranche.db')),
      [],
    )
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
  })
})

const statusOf = (url: string, ca: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    // The certificate itself is trusted, not its issuer.
    const options = { ca, agent: false, allowPartialTrustChain: true, family: 4 }
    get(url, options, (answer) => {
      answer.resume()
      resolve(answer.statusCode)
    }).on('error', reject)
  })

const certificateOf = (url: string): Promise<PeerCertificate> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const socket = connectTls({ host: hostname, port: Number(port), rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate())
      socket.end()
    })
    socket.on('error', reject)
  })
