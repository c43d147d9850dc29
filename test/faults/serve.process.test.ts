// A service whose disk fails or fills up under it: what it cannot store it answers with 503, it goes on when the disk
// does, and everything it answered with 200 is there after a kill.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { appendFileSync, copyFileSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { basename, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { head } from '../http/raw.ts'
import { trancheHere } from '../store/copies.ts'
import { PROGRAM, type Program, startServe, WITH_OPS } from '../support/process.ts'
import { USER, withKey } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { settled } from '../support/within.ts'
import { type Fault, failingCalls } from './failing-calls.ts'
import { MOUNTING, mayMount } from './mounts.ts'

type Answer = { status: number; detail: string; retryAfter: string | null }

/** A service, and a caller that remembers who was linked with 200. */
async function serving(
  t: TestContext,
  options: { program?: Program; env?: Record<string, string> } = {},
  argv: string[] = [],
) {
  const { cwd, key } = await withKey(t)
  const served = await startServe(t, [...argv, ...WITH_OPS], { cwd, ...options })
  const linked = new Set<string>()
  let names = 0
  const call = async (path: string, body?: object): Promise<Answer> => {
    const headers = { authorization: `Bearer ${key}`, connection: 'close' }
    const url = `${served.url}/partner/v1${path}`
    const answer = await fetch(
      url,
      body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers },
    )
    const text = await answer.text()
    const detail = answer.status === 200 ? '' : JSON.parse(text).detail
    return { status: answer.status, detail, retryAfter: answer.headers.get('retry-after') }
  }
  const link = async (): Promise<Answer> => {
    const partner_user_id = `u${names++}`
    const answer = await call('/users', { ...USER, partner_user_id })
    if (answer.status === 200) linked.add(partner_user_id)
    return answer
  }
  /** Kills it: then the file is sound, and has everybody who was linked. */
  const assertKept = async (): Promise<void> => {
    served.child.kill('SIGKILL')
    await served.ended
    const run = (...argv: string[]) => trancheHere(join(cwd, 'tranche.db'), ...argv)
    const check = await run('check')
    assert.deepEqual([check.code, check.err], [0, ''], check.out)
    const list = await run('user', 'list', 'acme', '--env', 'test', '--json')
    const kept = new Set(
      (JSON.parse(list.out) as { partner_user_id: string }[]).map((row) => row.partner_user_id),
    )
    assert.deepEqual([...linked.difference(kept)], [])
    assert.ok(linked.size > 0)
    assert.doesNotMatch(served.err(), /"stack"|\n\s+at /, 'no stack in the log')
  }
  const ready = async () => (await fetch(`${served.opsUrl}/readyz`)).status
  return { cwd, key, served, call, link, ready, assertKept }
}

/** Makes a call over a connection that is there. */
async function statusOver(socket: Socket, key: string): Promise<number> {
  socket.write(head('GET', '/partner/v1/me', key))
  const [answer] = (await once(socket, 'data')) as [Buffer]
  return Number(answer.toString('latin1', 'HTTP/1.1 '.length, 'HTTP/1.1 200'.length))
}

function assertPutOff({ status, detail, retryAfter }: Answer): void {
  assert.deepEqual([status, retryAfter], [503, '10'], detail)
  assert.match(detail, /^The database cannot be read or written at present; send the call again later\.$/)
}

const FAULTS: Fault[] = [
  { call: 'fsync', name: '-wal', error: 'EIO' },
  { call: 'write', name: '-wal', error: 'EIO' },
  { call: 'write', name: '-wal', error: 'ENOSPC' },
]

suite('serve on a machine that fails', { concurrency: 3 }, () => {
  test('calls of the system that fail: 503 while it lasts, 200 after it, nothing lost', async (t) => {
    if (!hasTool(t, 'cc')) return
    const calls = failingCalls(t)
    const { cwd, link, call, ready, assertKept } = await serving(t, { env: calls.env })
    for (const fault of FAULTS) {
      const doing = `${fault.error} on ${fault.call}`
      for (let n = 0; n < 5; n++) assert.equal((await link()).status, 200, doing)
      calls.begin({ ...fault, name: `${basename(cwd)}/tranche.db${fault.name}` })
      for (const answer of await Promise.all(Array.from({ length: 10 }, link))) assertPutOff(answer)
      assert.equal((await call('/me')).status, 200, `what is only read is answered under ${doing}`)
      assert.equal(await ready(), 503, doing)
      assert.ok(calls.end(), doing)
      for (let n = 0; n < 5; n++)
        assert.equal((await link()).status, 200, `it goes on by itself after ${doing}`)
      assert.equal(await ready(), 200, doing)
    }
    await assertKept()
  })

  test('a full disk: the same, and it goes on once there is room', async (t) => {
    if (!mayMount(t)) return
    const script =
      'mkdir disk && mount -t tmpfs -o size=1m none disk && cp -p tranche.db disk && cd disk && exec "$0" "$@"'
    const program: Program = [...MOUNTING, script, ...PROGRAM]
    const { cwd, served, link, assertKept } = await serving(t, { program }, ['--tick-every', '1s'])
    assert.equal((await link()).status, 200)
    // What the process sees there.
    const disk = `/proc/${served.child.pid}/root${cwd}/disk`
    assert.throws(() => appendFileSync(join(disk, 'fill'), Buffer.alloc(2 ** 21)), /ENOSPC/)
    let answer = await link()
    for (let n = 0; n < 100 && answer.status === 200; n++) answer = await link()
    assertPutOff(answer)
    await served.line('"msg":"tick failed"')
    rmSync(join(disk, 'fill'))
    for (let n = 0; n < 5; n++) assert.equal((await link()).status, 200)
    // The disk goes with the process: it is left here as a kill would leave it.
    served.child.kill('SIGSTOP')
    for (const name of ['tranche.db', 'tranche.db-wal']) copyFileSync(join(disk, name), join(cwd, name))
    await assertKept()
  })

  test('files that may grow no further: 503, and what was answered is there', async (t) => {
    // In blocks of 512 bytes: the log takes some commits, and then none.
    const shell: Program = ['/bin/sh', '-c', 'ulimit -f 900; exec "$0" "$@"', ...PROGRAM]
    const { link, assertKept } = await serving(t, { program: shell })
    let answer = await link()
    for (let n = 0; n < 500 && answer.status === 200; n++) answer = await link()
    assertPutOff(answer)
    await assertKept()
  })

  test('more connections than there are descriptors: those that were let in are answered, and nothing ends', async (t) => {
    const shell: Program = ['/bin/sh', '-c', 'ulimit -n 48; exec "$0" "$@"', ...PROGRAM]
    const { key, served, link, assertKept } = await serving(t, { program: shell })
    const { hostname, port } = new URL(served.url)
    assert.equal((await link()).status, 200)
    const idle = Array.from({ length: 200 }, () => connect(Number(port), hostname).on('error', () => {}))
    t.after(() => idle.map((socket) => socket.destroy()))
    const open = () => idle.filter((socket) => !socket.destroyed)
    await settled(() => open().length)
    assert.ok(!served.hasEnded())
    const letIn = open()
    assert.ok(letIn.length > 0 && letIn.length < idle.length, `${letIn.length} were let in`)
    for (const socket of letIn)
      assert.equal(await statusOver(socket, key), 200, 'anyone who was let in is answered')
    for (const socket of idle) socket.destroy()
    // It learns a moment later that they are gone.
    while ((await link().catch(() => null))?.status !== 200) assert.ok(!served.hasEnded())
    for (let n = 0; n < 5; n++) assert.equal((await link()).status, 200)
    await assertKept()
  })
})
