// Resources taken from the program while it runs: descriptors, space, its disk, its database. Its answers stay true.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, renameSync, rmSync, symlinkSync, unlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { Problem } from '../../src/core/problem.ts'
import { createOps } from '../../src/http/ops/endpoints.ts'
import { createMetrics, EXPOSITION_TYPE } from '../../src/http/ops/metrics.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { head } from '../http/raw.ts'
import { link } from '../http/steps.ts'
import { trancheHere } from '../store/copies.ts'
import { problem, T0 } from '../store/world.ts'
import { temporaryFolder } from '../support/database.ts'
import { finish, PROGRAM, type Program, startServe, WITH_OPS } from '../support/process.ts'
import {
  AUDIT,
  recordingLog,
  runHere,
  type Service,
  startService,
  USER,
  withKey,
} from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { settled } from '../support/within.ts'
import { assertClearEnd, assertMendsItself, COMMANDS, lay } from './commands.ts'
import { ALL, chanceOf, type Fault, failingCalls, MOUNTING, mayMount, sample } from './failing.ts'

// Limits of the machine that every command can meet: files that may not grow, no descriptors left, a read-only disk.
// Each command ends with one sentence and 1, or its work is done; without the limit everything works again.
// FAULTS_ALL=1 takes every command, else each limit takes some.

const SHELL: Program = ['/bin/sh', '-c']
const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(' ')

/** Runs every command behind a line of shell, or a few of them, and answers how many succeeded. */
async function underEach(
  t: TestContext,
  limit: (file: string) => string,
  { program = SHELL, some = 2 } = {},
): Promise<number> {
  const commands = ALL ? COMMANDS : sample(COMMANDS, some, chanceOf(t))
  let succeeded = 0
  for (const command of commands) {
    const file = await lay(command, temporaryFolder(t))
    const script = `${limit(file)}; exec ${quoted([...PROGRAM, '--db', file, ...command.argv(file)])}`
    const ended = await finish(t, [script], { cwd: dirname(file), program })
    assertClearEnd(ended, command, file)
    await assertMendsItself(command, file)
    if (ended.code === 0) succeeded += 1
  }
  return succeeded
}

suite('a limit of the machine', { concurrency: 2 }, () => {
  // In blocks of 512 bytes: nothing, the index of the log, a part of a copy.
  for (const blocks of [0, 70, 200]) {
    test(`files that may have ${blocks} blocks at most`, async (t) => {
      const succeeded = await underEach(t, () => `ulimit -f ${blocks}`)
      if (blocks === 0) assert.equal(succeeded, 0)
    })
  }

  // Node itself needs about twenty before it has read the command line.
  for (const descriptors of ALL ? [21, 22, 23, 24, 25, 26, 27, 28] : [22, 24, 25]) {
    test(`${descriptors} open files at most`, async (t) => {
      // Three numbers so close together amount to one case.
      await underEach(t, () => `ulimit -n ${descriptors}`, { some: 1 })
    })
  }

  test('a disk that takes no writes', async (t) => {
    if (!mayMount(t)) return
    const fixed = (file: string) =>
      `cd / && mount --bind ${dirname(file)} ${dirname(file)} && mount -o remount,ro,bind ${dirname(file)}`
    assert.equal(await underEach(t, fixed, { program: MOUNTING }), 0)
  })
})

// A service whose disk fails or fills up under it: a write that it cannot store is answered with 503, it recovers when
// the disk does, and everything it answered with 200 is there after a kill.

type Answer = { status: number; detail: string; retryAfter: string | null }

/** A service, and a caller that remembers the users linked with 200. */
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
  /** Kills it: then the file is sound, and has every linked user. */
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

/** Makes a call over an open connection. */
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
    // It notices a moment later that they are gone.
    while ((await link().catch(() => null))?.status !== 200) assert.ok(!served.hasEnded())
    for (let n = 0; n < 5; n++) assert.equal((await link()).status, 200)
    await assertKept()
  })
})

// The database is removed, replaced or renamed under a service that has it open: from then on the service answers no
// call whose write would be lost.

/** A service that writes down its errors, with the ops endpoints. */
async function watched(t: TestContext): Promise<Service & { errors: () => number }> {
  const { log, entries } = recordingLog()
  const service = await startService(t, {
    log,
    more: (store, { clock }) => {
      const ops = createOps({ clock, metrics: createMetrics(), exposition: EXPOSITION_TYPE, token: null })
      ops.opened(store)
      return { ops }
    },
  })
  return { ...service, errors: () => entries.filter(({ level }) => level === 'error').length }
}

const LOSSES: [what: string, lose: (file: string) => void][] = [
  ['removed', unlinkSync],
  ['renamed', (file) => renameSync(file, `${file}.old`)],
  [
    'replaced by a copy of itself',
    (file) => {
      copyFileSync(file, `${file}.copy`)
      renameSync(`${file}.copy`, file)
    },
  ],
  ['without its log', (file) => unlinkSync(`${file}-wal`)],
  ['without the index of its log', (file) => unlinkSync(`${file}-shm`)],
  ['gone with its folder', (file) => rmSync(dirname(file), { recursive: true })],
]

for (const [what, lose] of LOSSES) {
  test(`a database ${what}: 503 for every call, and one line in the log`, async (t) => {
    const service = await watched(t)
    await link(service, 'before')
    lose(service.file)
    const write = (id: string) => service.call('POST', '/partner/v1/users', { ...USER, partner_user_id: id })
    const answers = await Promise.all(['a', 'b', 'c'].map(write))
    for (const { status, body, headers } of answers) {
      assert.equal(status, 503)
      assert.match(body.detail, /has lost its database/)
      assert.equal(headers.get('retry-after'), '60')
    }
    assert.equal((await service.call('GET', '/partner/v1/me')).status, 503, 'a read is refused too')
    assert.equal(service.errors(), 1)
    const ready = await fetch(`${service.opsUrl}/readyz`)
    const { reasons } = (await ready.json()) as { reasons: string[] }
    assert.equal(ready.status, 503)
    assert.equal(reasons.length, 1, reasons.join())
    assert.match(reasons[0] ?? '', /tranche\.db(-wal|-shm)? was removed or replaced while it was open/)
    assert.equal((await fetch(`${service.url}/healthz`)).status, 200)
  })
}

test('a database that comes back under its name stays refused until a restart', async (t) => {
  const service = await watched(t)
  renameSync(service.file, `${service.file}.old`)
  assert.equal((await service.call('POST', '/partner/v1/users', USER)).status, 503)
  renameSync(`${service.file}.old`, service.file)
  await wait(150)
  assert.equal((await service.call('POST', '/partner/v1/users', USER)).status, 503)
  assert.equal((await service.call('GET', '/partner/v1/me')).status, 503)
})

test('a lock that others keep puts a write off, and what is only read is answered', async (t) => {
  const changeUser = async () => {
    throw new Problem('database_locked', 'The database stayed locked by another process for 15 s.')
  }
  const { call } = await startService(t, { wrap: (store) => ({ ...store, changeUser }) })
  const { status, body, headers } = await call('POST', '/partner/v1/users', USER)
  assert.deepEqual([status, headers.get('retry-after')], [503, '1'])
  assert.equal(body.detail, 'The database is busy; send the call again.')
  assert.equal((await call('GET', '/partner/v1/me')).status, 200)
})

test('a link that is turned to another database counts as replaced', async (t) => {
  const [file, other] = [1, 2].map(() => join(temporaryFolder(t), 'tranche.db')) as [string, string]
  const name = join(dirname(file), 'link.db')
  for (const made of [file, other]) (await openStore(made, { clock: () => T0, create: true })).close()
  symlinkSync(file, name)
  const store = await openStore(name, { clock: () => T0, create: false })
  t.after(() => store.close())
  await store.addPartner({ partnerSlug: 'acme', name: 'a' }, AUDIT)
  unlinkSync(name)
  symlinkSync(other, name)
  await assert.rejects(store.addPartner({ partnerSlug: 'bolt', name: 'b' }, AUDIT), problem('database_gone'))
})

// Only Linux shows the open files of a process.
if (process.platform === 'linux')
  test('what a process still has open of a removed database can be rescued, and restored', async (t) => {
    const service = await watched(t)
    await link(service, 'before')
    const folder = dirname(service.file)
    unlinkSync(service.file)
    unlinkSync(`${service.file}-wal`)
    assert.equal((await service.call('POST', '/partner/v1/users', USER)).status, 503)
    // Another process copies: closing such a file here would give up this process's locks on it.
    const copy = `cd /proc/${process.pid}/fd && for n in *; do case "$(readlink $n)" in
    "${service.file} (deleted)") cp $n ${folder}/rescued.db ;;
    "${service.file}-wal (deleted)") cp $n ${folder}/rescued.db-wal ;; esac; done`
    execFileSync('sh', ['-c', copy])
    const restored = await runHere(['--db', service.file, 'restore', join(folder, 'rescued.db')])
    assert.equal(restored.code, 0, restored.err)
    const users = await runHere(['--db', service.file, 'user', 'list', 'acme', '--env', 'test', '--json'])
    assert.match(users.out, /"before"/)
    assert.equal(
      (await service.call('GET', '/partner/v1/me')).status,
      503,
      'not the old process, which has the old file',
    )
  })

test('a tick whose database goes while it waits fires nothing, says so and exits 1', async (t) => {
  const service = await watched(t)
  const other = new SQLite(service.file)
  other.exec('begin immediate')
  const tick = runHere(['--db', service.file, 'tick', '--price', '60000'])
  await wait(300)
  unlinkSync(service.file)
  other.exec('rollback')
  other.close()
  const { code, err } = await tick
  assert.equal(code, 1, err)
  assert.match(err, /tranche\.db was removed or replaced while it was open, so nothing more is stored/)
})

test('a sandbox reset is not reported when its file is gone', async (t) => {
  const service = await watched(t)
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  await service.store.resetSandbox(tenant, AUDIT)
  unlinkSync(service.file)
  await assert.rejects(service.store.resetSandbox(tenant, AUDIT), problem('database_gone'))
})
