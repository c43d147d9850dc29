// Signals that are no request to stop: none ends serve, none opens a debugger, and SIGHUP renews the certificate.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { makeCertificate } from '../support/certificate.ts'
import { PROGRAM, type Program, SOURCE, type Started, startServe } from '../support/process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

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
  for (const [what, program] of [
    ['the source', SOURCE],
    ['a checkout', CHECKOUT],
    ['the executable', PROGRAM],
  ] as const)
    test(`SIGUSR1, SIGUSR2 and SIGHUP leave ${what} running, without a debugger`, async (t) => {
      const cwd = temporaryFolder(t)
      const env = { PATH: process.env.PATH ?? '', TRANCHE_CACHE: join(cwd, 'cache') }
      // Somebody on this machine may be debugging something else.
      const wasListening = await isListening(INSPECTOR_PORT)
      const { child, url, err } = await startServe(t, [], { cwd, program, env })
      for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGUSR1'] as const) {
        child.kill(signal)
        await wait(200)
        assert.equal((await fetch(`${url}/healthz`)).status, 200, signal)
      }
      assert.doesNotMatch(err(), /Debugger/i)
      assert.equal(await isListening(INSPECTOR_PORT), wasListening)
    })

  test('SIGHUP shows new clients the certificate that is in the files now', async (t) => {
    const { served, cwd, write } = await startTls(t)
    const first = await shownBy(served)
    write('c.pem', 'k.pem')
    assert.equal(await shownBy(served), first, 'not before it is told')
    served.child.kill('SIGHUP')
    const { sha256 } = JSON.parse(await served.line('the certificate was read again'))
    const second = await shownBy(served)
    assert.notEqual(second, first)
    assert.equal(second, sha256)
    // A certificate that is only half replaced, or gone, changes nothing.
    write('c.pem', 'other.pem')
    served.child.kill('SIGHUP')
    await served.line('the certificate stays as it was')
    assert.equal(await shownBy(served), second)
    writeFileSync(join(cwd, 'c.pem'), 'nothing')
    served.child.kill('SIGHUP')
    await wait(300)
    assert.equal(await shownBy(served), second)
  })
})

async function startTls(t: TestContext) {
  const cwd = temporaryFolder(t)
  const write = (certFile: string, keyFile: string): void => {
    const { cert, key } = makeCertificate()
    writeFileSync(join(cwd, certFile), cert)
    writeFileSync(join(cwd, keyFile), key)
  }
  write('c.pem', 'k.pem')
  const served = await startServe(t, ['--tls-cert', 'c.pem', '--tls-key', 'k.pem'], { cwd })
  return { cwd, write, served }
}

const shownBy = ({ url }: Started & { url: string }): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const socket = connectTls({ host: hostname, port: Number(port), rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256)
      socket.end()
    })
    socket.on('error', reject)
  })
