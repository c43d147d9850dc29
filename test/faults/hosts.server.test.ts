// Hosts and servers that fail: rounds of `npm run faults -- --store postgres`, and a server that cannot do its work.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { machine } from '../../src/machine.ts'
import { each } from '../store/world.ts'
import { temporaryFolder } from '../support/database.ts'
import { type Guarded, PASSWORD, withPasswords } from '../support/postgres-server.ts'
import { finish, type Started, startServe } from '../support/process.ts'
import { USER } from '../support/service.ts'
import { mayMount } from './failing.ts'
import { processesOf, send } from './hosts/cluster.ts'
import { hostRounds, STRIKES } from './hosts/rounds.ts'

test('whichever host is struck, nothing that was answered is lost, and nothing is done twice', async (t) => {
  const seed = Number(process.env.SEED ?? machine.clock() % 1_000_000)
  t.diagnostic(`SEED=${seed}`)
  const { tallies, answered } = await hostRounds(STRIKES.length, { seed })
  assert.deepEqual([...tallies.keys()].sort(), STRIKES.map(({ name }) => name).sort())
  const atWork = [...tallies.values()].reduce((sum, tally) => sum + tally.atWork, 0)
  assert.ok(atWork > 0, 'nothing was struck in the middle of its work')
  assert.ok((answered.confirmations ?? 0) > 0)
})

// A PostgreSQL server that cannot do its work: its disk is full, a table stays locked, it answers nothing. Callers are
// told to try again, every confirmation is stored, and the service recovers by itself.

type Scene = Guarded & {
  serve: Started & { url: string }
  run: (...argv: string[]) => ReturnType<typeof finish>
  /** Links a user. */
  link: (id: string) => Promise<Response>
}

async function stage(t: TestContext, guarded: Guarded): Promise<Scene> {
  const options = { cwd: temporaryFolder(t), env: { TRANCHE_DB: guarded.url(PASSWORD) } }
  const run: Scene['run'] = (...argv) => finish(t, argv, options)
  assert.equal((await run('partner', 'create', 'acme', '--name', 'Acme')).code, 0)
  const key = (await run('key', 'create', 'acme', '--env', 'test')).out.trim()
  const serve = await startServe(t, [], options)
  const link = (id: string) =>
    fetch(`${serve.url}/partner/v1/users`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ ...USER, partner_user_id: id }),
    })
  return { ...guarded, serve, run, link }
}

async function assertPutOff(answer: Response, detail: RegExp): Promise<void> {
  const body = (await answer.json()) as { detail: string }
  assert.equal(answer.status, 503, body.detail)
  assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/)
  assert.match(body.detail, detail)
}

const isAlive = async ({ serve }: Scene): Promise<void> =>
  assert.equal((await fetch(`${serve.url}/healthz`)).status, 200)

/** A small disk, which holds this process's temporary files until the server is on it. */
async function onSmallDisk(t: TestContext): Promise<{ guarded: Guarded; disk: string }> {
  const disk = temporaryFolder(t)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=160m,mode=755', 'none', disk])
  const before = process.env.TMPDIR
  process.env.TMPDIR = disk
  try {
    return { guarded: await withPasswords(t), disk }
  } finally {
    process.env.TMPDIR = before
    // Hooks run in the order they were registered: the server has ended by then.
    t.after(() => execFileSync('umount', ['--lazy', disk]))
  }
}

test('a disk that is full: what is refused says so, what was accepted is there, and it goes on', async (t) => {
  if (!mayMount(t)) return
  const { guarded, disk } = await onSmallDisk(t)
  const scene = await stage(t, guarded)
  const ballast = join(disk, 'ballast')
  chmodSync(disk, 0o755)
  assert.throws(() => writeFileSync(ballast, Buffer.alloc(160 << 20)), { code: 'ENOSPC' })
  const accepted: string[] = []
  let refused: Response | null = null
  while (refused === null && accepted.length < 5_000) {
    const id = `u${accepted.length}`
    const answer = await scene.link(id)
    if (answer.status === 200) {
      await answer.text()
      accepted.push(id)
    } else refused = answer
  }
  assert.ok(refused)
  await assertPutOff(refused, /cannot be read or written at present/)
  const { error } = JSON.parse(await scene.serve.line('"msg":"request failed"'))
  assert.match(
    error,
    /^The disk or the memory of postgres:.* is full or has failed \(could not .*\), so .*: make room there\.$/,
  )
  await isAlive(scene)
  rmSync(ballast)
  assert.equal((await scene.link('later')).status, 200)
  const users = await guarded.server.ask<{ partner_user_id: string }>(
    'select partner_user_id from tranche.users order by user_id',
    'app',
  )
  assert.deepEqual(each(users, 'partner_user_id'), [...accepted, 'later'])
  assert.equal((await scene.run('check')).code, 0)
})

test('a server that hangs: commands and calls end with a sentence, the service is alive, and all goes on', async (t) => {
  const scene = await stage(t, await withPasswords(t))
  assert.equal((await scene.link('u1')).status, 200)
  const all = processesOf(scene.server)
  send(all, 'SIGSTOP')
  try {
    const began = performance.now()
    const inHand = scene.link('lost')
    const { code, out, err } = await scene.run('partner', 'list')
    assert.deepEqual([code, out], [1, ''], err)
    assert.match(err, /^error: postgres:.* cannot be reached \(.* timeout\): .*\n$/)
    assert.ok(performance.now() - began < COMMAND_MAX_MS, `${performance.now() - began} ms: ${err}`)
    await isAlive(scene)
    await assertPutOff(await inHand, /cannot be read or written at present/)
    assert.ok(performance.now() - began < CALL_MAX_MS, `${performance.now() - began} ms`)
    const { error } = JSON.parse(await scene.serve.line('"msg":"request failed"'))
    // A call with a connection waits on it; another call's check may have ended that one, and then it connects.
    assert.match(
      error,
      /^postgres:.* (hangs, or the network to it is cut \(no answer in 20 s\)|cannot be reached \(.* timeout\)): .*\.$/,
    )
  } finally {
    send(all, 'SIGCONT')
  }
  assert.equal((await scene.link('u2')).status, 200)
  assert.equal((await scene.run('check')).code, 0)
})

test('a commit that waits for a standby which is away: nobody calls it done, or failed', async (t) => {
  const scene = await stage(t, await withPasswords(t))
  const { ask } = scene.server
  await ask(`alter system set synchronous_standby_names = 'away'`)
  await ask('select pg_reload_conf()')
  const began = performance.now()
  await assertPutOff(await scene.link('u1'), /cannot be read or written at present/)
  assert.ok(performance.now() - began < CALL_MAX_MS, `${performance.now() - began} ms`)
  const { error } = JSON.parse(await scene.serve.line('"msg":"request failed"'))
  assert.match(
    error,
    /^postgres:.* did not answer a commit, .*, and it is not known whether that was recorded: /,
  )
  await isAlive(scene)
  await ask('alter system reset synchronous_standby_names')
  await ask('select pg_reload_conf()')
  assert.equal((await scene.link('u1')).status, 200)
  const users = await ask('select from tranche.users', 'app')
  assert.equal(users.length, 1)
})

/** The longest that a call takes: a missing answer, and the check of its outcome. */
const CALL_MAX_MS = 40_000
/** The time of one attempt to connect, and of a process's start on a busy machine. */
const COMMAND_MAX_MS = 25_000
