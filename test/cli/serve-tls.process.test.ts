// serve over TLS as a process: certificates from files, and one that is made for a first try.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { connect as connectPlainly } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type PeerCertificate } from 'node:tls'
import { EXIT } from '../../src/cli/shared/exit-codes.ts'
import { makeCertificate } from '../support/certificate.ts'
import { freePort } from '../support/free-port.ts'
import { finish, type Started, start, startServe } from '../support/process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Whether anybody could connect to a port of this machine before a process ended. */
async function wasOpen(port: number, { hasEnded }: Started): Promise<boolean> {
  while (!hasEnded()) {
    const socket = connectPlainly(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return true
    await pause(1)
  }
  return false
}

suite('serve over TLS', { concurrency: 4 }, () => {
  test('with a certificate of its own authority', async (t) => {
    const cwd = temporaryFolder(t)
    const { cert, key } = makeCertificate()
    writeFileSync(join(cwd, 'cert.pem'), cert)
    writeFileSync(join(cwd, 'key.pem'), key)
    const { url } = await startServe(t, ['--tls-cert', 'cert.pem', '--tls-key', 'key.pem'], { cwd })
    assert.match(url, /^https:/)
    assert.equal(await statusOf(`${url}/partner/v1/me`, cert), 401)
  })

  test('a client that speaks nothing newer than TLS 1.1 is turned away', async (t) => {
    const served = await startServe(t, ['--tls-self-signed'], { cwd: temporaryFolder(t) })
    const tried = (maxVersion: 'TLSv1.1' | 'TLSv1.2') =>
      new Promise<string>((resolve) => {
        const { hostname, port } = new URL(served.url)
        const old = { minVersion: 'TLSv1', maxVersion, ciphers: 'DEFAULT:@SECLEVEL=0' } as const
        const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false, ...old })
        socket.on('secureConnect', () => {
          resolve(socket.getProtocol() ?? '')
          socket.destroy()
        })
        socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? ''))
      })
    assert.equal(await tried('TLSv1.2'), 'TLSv1.2')
    assert.equal(await tried('TLSv1.1'), 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION')
  })

  const [one, other] = [makeCertificate(), makeCertificate()]
  for (const [what, cert, key, said] of [
    ['is missing', null, null, /c\.pem/],
    ['is no certificate', 'not PEM', one.key, /^--tls-cert: c\.pem has no certificate/],
    [
      'is damaged',
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
      one.key,
      /^--tls-cert: c\.pem has no certificate/,
    ],
    ['is no key', one.cert, one.cert, /^--tls-key: k\.pem has no private key/],
    [
      'is the key of another',
      one.cert,
      other.key,
      /^--tls-key: k\.pem is not the key of the first certificate in c\.pem\.$/,
    ],
  ] as const) {
    const expected = cert === null ? EXIT.notFound : EXIT.failed
    test(`a TLS file that ${what}: exit ${expected} with a message, and no port opened`, async (t) => {
      const cwd = temporaryFolder(t)
      if (cert !== null) writeFileSync(join(cwd, 'c.pem'), cert)
      if (key !== null) writeFileSync(join(cwd, 'k.pem'), key)
      const port = await freePort()
      const argv = ['serve', '--port', String(port), '--tls-cert', 'c.pem', '--tls-key', 'k.pem', '--json']
      const started = start(t, argv, { cwd })
      assert.equal(await wasOpen(port, started), false)
      assert.deepEqual([await started.ended, started.out()], [expected, ''])
      assert.match(JSON.parse(started.err()).error.message, said)
    })
  }

  test('one TLS file may have the certificate and its key', async (t) => {
    const cwd = temporaryFolder(t)
    writeFileSync(join(cwd, 'both.pem'), `a remark\n${one.cert}${one.key}`)
    const { url } = await startServe(t, ['--tls-cert', 'both.pem', '--tls-key', 'both.pem'], { cwd })
    assert.equal(await statusOf(`${url}/healthz`, one.cert), 200)
  })

  test('--tls-self-signed: TLS at once, no file but the database, the fingerprint in the log', async (t) => {
    const cwd = temporaryFolder(t)
    // An empty environment: no openssl, nor anything else, can be found.
    const served = await startServe(t, ['--tls-self-signed'], { cwd })
    const { sha256 } = JSON.parse(await served.line('certificate made for this start'))
    const shown = await certificateOf(served.url)
    assert.equal(shown.fingerprint256, sha256)
    // Whoever trusts exactly this certificate can verify it, by its name and by its address.
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

  test('--tls-self-signed beside a certificate is a contradiction', async (t) => {
    const argv = ['serve', '--port', '0', '--tls-self-signed', '--tls-cert', 'c.pem', '--json']
    const { code, err } = await finish(t, argv, { cwd: temporaryFolder(t) })
    assert.equal(code, 2)
    assert.match(JSON.parse(err).error.message, /leave out --tls-cert/)
  })
})

const statusOf = (url: string, ca: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    // The certificate itself is trusted, not whoever signed it.
    const options = { ca, agent: false, allowPartialTrustChain: true, family: 4 }
    get(url, options, (answer) => {
      answer.resume()
      resolve(answer.statusCode)
    }).on('error', reject)
  })

const certificateOf = (url: string): Promise<PeerCertificate> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate())
      socket.end()
    })
    socket.on('error', reject)
  })
