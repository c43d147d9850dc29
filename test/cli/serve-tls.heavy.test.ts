// The TLS that serve offers, as sslscan detects it.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import { makeCertificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/database.ts'
import { startServe } from '../support/process.ts'
import { hasTool } from '../support/tools.ts'

const run = promisify(execFile)

/** Everything that may be offered; sslscan also tries the rest that its own OpenSSL knows. */
const TLS_1_3 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256']
const tls12 = (key: 'ECDSA' | 'RSA'): string[] =>
  ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].map((name) => `ECDHE-${key}-${name}`)

/** The attributes of each element of a name. */
const elements = (xml: string, name: string): Record<string, string>[] =>
  [...xml.matchAll(new RegExp(`<${name} ([^>]*?)/?>`, 'g'))].map(([, attributes = '']) =>
    Object.fromEntries([...attributes.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, key, value]) => [key, value])),
  )

/** Each way to a certificate, with a key of its own kind. */
const WAYS = {
  'a certificate from files, with an elliptic key': ['ECDSA', ['--tls-cert', 'c.pem', '--tls-key', 'c.pem']],
  'a certificate made for a first try, with an RSA key': ['RSA', ['--tls-self-signed']],
} as const

suite('TLS is 1.3, or 1.2 with ECDHE and AEAD', () => {
  for (const [way, [key, argv]] of Object.entries(WAYS))
    test(`${way}: nothing else is offered`, async (t) => {
      const { served, host, port } = await serveTls(t, argv)
      if (!hasTool(t, 'sslscan')) return
      await assertScanned(`${host}:${port}`, key)
      // A reloaded certificate is offered in the same way.
      if (key === 'RSA') return
      served.child.kill('SIGHUP')
      await served.line('the certificate was read again')
      await assertScanned(`${host}:${port}`, key)
    })

  test('a client cannot start the handshake again, nor have anything compressed', async (t) => {
    const { host, port } = await serveTls(t, ['--tls-self-signed'])
    const socket = connect({ host, port, maxVersion: 'TLSv1.2', rejectUnauthorized: false })
    t.after(() => socket.destroy())
    await new Promise<void>((resolve, reject) => socket.on('secureConnect', resolve).on('error', reject))
    const ended = new Promise<string>((resolve) => {
      socket.removeAllListeners('error').on('error', ({ message }) => resolve(message))
      socket.renegotiate({ rejectUnauthorized: false }, (error) => resolve(String(error)))
    })
    assert.match(await ended, /no.renegotiation/i)
    const { stdout } = await run('/bin/sh', [
      '-c',
      `openssl s_client -connect ${host}:${port} -tls1_2 -comp < /dev/null 2>&1`,
    ])
    assert.match(stdout, /Compression: NONE/)
  })
})

async function serveTls(t: TestContext, argv: readonly string[]) {
  const cwd = temporaryFolder(t)
  const { cert, key } = makeCertificate()
  writeFileSync(join(cwd, 'c.pem'), cert + key)
  const served = await startServe(t, [...argv], { cwd })
  const { hostname: host, port } = new URL(served.url)
  return { served, host, port: Number(port) }
}

/** Asserts that sslscan finds exactly the expected suites, and none of the faults it looks for. */
async function assertScanned(target: string, key: 'ECDSA' | 'RSA'): Promise<void> {
  const { stdout: xml } = await run('sslscan', ['--xml=-', '--show-sigs', '--no-colour', target])
  assert.deepEqual(elements(xml, 'ssltest').length, 1, xml)
  const enabled = elements(xml, 'protocol').filter((one) => one.enabled === '1')
  assert.deepEqual(
    enabled.map(({ type, version }) => `${type} ${version}`),
    ['tls 1.2', 'tls 1.3'],
  )
  const offered = (version: string) =>
    elements(xml, 'cipher')
      .filter(({ sslversion }) => sslversion === version)
      .map(({ cipher = '' }) => cipher)
  assert.deepEqual(offered('TLSv1.3').sort(), TLS_1_3)
  assert.deepEqual(offered('TLSv1.2').sort(), tls12(key))
  assert.equal(elements(xml, 'cipher').length, TLS_1_3.length + tls12(key).length)
  // A fault that this sslscan does not look for has no element.
  const faults = [
    ...elements(xml, 'renegotiation').filter(({ supported, secure }) => supported === '1' && secure !== '1'),
    ...elements(xml, 'compression').filter(({ supported }) => supported !== '0'),
    ...elements(xml, 'heartbleed').filter(({ vulnerable }) => vulnerable !== '0'),
    ...elements(xml, 'connection-signature-algorithm').filter(({ name = '' }) =>
      /sha1|md5|dsa_sha$/i.test(name),
    ),
  ]
  assert.deepEqual(faults, [])
  assert.ok(elements(xml, 'heartbleed').length > 0 && elements(xml, 'renegotiation').length === 1, xml)
  assert.match(xml, /<signature-algorithm>(ecdsa-with-SHA256|sha256WithRSAEncryption)</)
}
