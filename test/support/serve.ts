// Calls of a serve that runs as a process of its own.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Outcome, runHere } from './command.ts'
import { USER } from './service.ts'
import { openShell } from './shell.ts'

export const me = (url: string, key: string): Promise<Response> =>
  fetch(`${url}/partner/v1/me`, { headers: { authorization: `Bearer ${key}`, connection: 'close' } })

/** A folder with a database in it, where serve finds it by default, and a key. */
export async function withKey(t: Pick<TestContext, 'after'>): Promise<{ cwd: string; key: string }> {
  const shell = openShell(t)
  assert.equal((await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])).code, 0)
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'test'])
  return { cwd: shell.folder, key: out.trim() }
}

/**
 * Runs, in this process, a serve whose options are to be refused before anything is opened: there is no database in the
 * folder, and none is made. One that is not refused ends as well, for lack of a database.
 */
export async function serveRefused(cwd: string, ...argv: string[]): Promise<Outcome> {
  const outcome = await runHere(['--db', join(cwd, 'no.db'), 'serve', '--no-create', '--port', '0', ...argv])
  assert.ok(!existsSync(join(cwd, 'no.db')))
  return outcome
}

/** A call the service has begun to read: it has been told to go on, and half of the body is still to come. */
export function halfSent(url: string, key: string): Promise<{ finish: () => Promise<number> }> {
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
  // A service that is ended by force resets the connection; that is not a failure of the test.
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
