// Signals that do not ask it to stop: none ends serve, and none opens a debugger. What SIGHUP does for a certificate is
// in serve-tls.process.test.ts.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { temporaryFolder } from '../support/database.ts'
import { type Program, SOURCE, start, startServe } from '../support/process.ts'

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
    // Somebody on this machine may be debugging something else.
    const wasListening = await isListening(INSPECTOR_PORT)
    const { child, url, err } = await startServe(t, [], { cwd: temporaryFolder(t) })
    for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGUSR1'] as const) {
      child.kill(signal)
      await wait(200)
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
        await wait(200)
      }
      assert.equal(await isListening(INSPECTOR_PORT), wasListening)
      response.end()
      assert.deepEqual([await ended, err()], [0, ''])
    })
})
