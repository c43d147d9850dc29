// Thousands of connections that send nothing, or one request and then nothing: other callers are answered meanwhile, as
// long as the documented limits leave room for them.

import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { connectionLimitsOf } from '../../src/cli/service/serve.ts'
import { residentMib } from '../bench/program.ts'
import { head } from '../http/raw.ts'
import { startServe } from '../support/process.ts'
import { me, withKey } from '../support/service.ts'
import { settled } from '../support/within.ts'

/** The limit of this machine, 10,000 unless its limit of open files is low: serve computes the same number. */
const ALLOWED = connectionLimitsOf({}).connectionsMax
/** A number that costs little to open; CONNECTIONS sets a larger one. */
const MOST = Math.min(Number(process.env.CONNECTIONS ?? 2_500), ALLOWED)
/** No option where the number equals the default limit. */
const LIMIT = MOST < ALLOWED ? ['--max-connections', String(MOST)] : []
/** Opened at once: the system's backlog holds no more. */
const AT_ONCE = 400
const ANSWER_MS = 2_000
/** As many as can be opened before the first of them has been silent for too long. */
const SILENT = 500
const BYTES_PER_CONNECTION = 32 * 1024

/** Opens connections, each of which sends `text`. Resolves with those that the service holds. */
async function openIdle(t: TestContext, url: string, count: number, text = ''): Promise<Socket[]> {
  const { hostname, port } = new URL(url)
  const held = new Set<Socket>()
  t.after(() => held.forEach((socket) => void socket.destroy()))
  for (let from = 0; from < count; from += AT_ONCE) {
    const batch = Array.from({ length: Math.min(AT_ONCE, count - from) }, async () => {
      const socket = connect({ host: hostname, port: Number(port) })
      socket.on('error', () => {}).on('close', () => held.delete(socket))
      await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve))
      if (!socket.destroyed) held.add(socket)
      socket.resume().write(text)
    })
    await Promise.all(batch)
  }
  await settled(() => held.size)
  return [...held]
}

async function assertAnswered(url: string, key: string): Promise<void> {
  const from = performance.now()
  assert.equal((await me(url, key)).status, 200)
  assert.ok(performance.now() - from < ANSWER_MS, `answered after ${Math.round(performance.now() - from)} ms`)
}

test('nearly as many as there may be, from this machine: others are answered', async (t) => {
  const { cwd, key } = await withKey(t)
  const served = await startServe(t, LIMIT, { cwd })
  const resident = () => residentMib(served.child.pid ?? 0) * 1024 * 1024
  const before = resident()
  const count = MOST - 50
  // After one refusal a connection may be idle for longer than it takes to open all of them.
  const spoken = await openIdle(t, served.url, count - SILENT, head('GET', '/nowhere', 'x'))
  const silent = await openIdle(t, served.url, SILENT)
  assert.equal(spoken.length + silent.length, count)
  for (let n = 0; n < 5; n++) await assertAnswered(served.url, key)
  const each = (resident() - before) / count
  t.diagnostic(`${count} connections, ${Math.round(each)} bytes each`)
  assert.ok(each < BYTES_PER_CONNECTION, `${each} bytes for a connection`)
  assert.ok(!served.err().includes('"level":"error"'), served.err())
})
