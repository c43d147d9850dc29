// serve over TLS as a process: certificates from files, which SIGHUP renews, and one that is made for a first try.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { connect as connectPlainly } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type PeerCertificate } from 'node:tls'
import { EXIT } from '../../src/cli/exit-codes.ts'
import { makeCertificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/database.ts'
import { type Started, start, startServe } from '../support/process.ts'
import { runHere, serveRefused } from '../support/service.ts'
import { freePort } from '../support/within.ts'

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
    // On this machine, a health check asks whatever the certificate is for.
    const url = served.url.replace('127.0.0.1', 'localhost')
    assert.equal((await runHere(['health', '--url', url])).out, 'ok\n')
    const first = await shown()
    write('c.pem', 'k.pem')
    assert.equal(await shown(), first, 'not before it is told')
    served.child.kill('SIGHUP')
    const { sha256 } = JSON.parse(await served.line('the certificate was read again'))
    const second = await shown()
    assert.notEqual(second, first)
    assert.equal(second, sha256)
    // A certificate that is only half replaced, or gone, changes nothing.
    write('c.pem', 'other.pem')
    served.child.kill('SIGHUP')
    await served.line('--tls-key: k.pem is not the key of the first certificate in c.pem.')
    assert.equal(await shown(), second)
    writeFileSync(join(cwd, 'c.pem'), 'nothing')
    served.child.kill('SIGHUP')
    await served.line('--tls-cert: c.pem has no certificate in PEM')
    assert.equal(await shown(), second)
    // A pipe would keep everybody waiting.
    rmSync(join(cwd, 'c.pem'))
    execFileSync('mkfifo', [join(cwd, 'c.pem')])
    served.child.kill('SIGHUP')
    await served.line('Cannot read c.pem: it is not a regular file')
    assert.equal(await shown(), second)
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

  test('one TLS file may have the certificate and its key; TLS 1.1 is turned away', async (t) => {
    const cwd = temporaryFolder(t)
    writeFileSync(join(cwd, 'both.pem'), `a remark\n${one.cert}${one.key}`)
    const { url } = await startServe(t, ['--tls-cert', 'both.pem', '--tls-key', 'both.pem'], { cwd })
    assert.equal(await statusOf(`${url}/healthz`, one.cert), 200)
    const tried = (maxVersion: 'TLSv1.1' | 'TLSv1.2') =>
      new Promise<string>((resolve) => {
        const { hostname, port } = new URL(url)
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
    const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate())
      socket.end()
    })
    socket.on('error', reject)
  })
