// The heartbeat monitor that tick and serve call after each pass: the executable and a real monitor.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type TestContext, test } from 'node:test'
import { damageAt } from '../store/damage.ts'
import { addressIn, temporaryFolder } from '../support/database.ts'
import { finish, startServe } from '../support/process.ts'
import { listen, runHere, T0 } from '../support/service.ts'

type Call = { line: string; body: string }
type Answer = (response: ServerResponse) => void

/** A monitor that records its calls. `called` resolves with the call of that number. */
async function monitor(t: TestContext, answer: Answer = (response) => response.end('OK')) {
  const calls: Call[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    calls.push({ line: `${request.method} ${request.url}`, body: Buffer.concat(chunks).toString() })
    server.emit('kept')
    answer(response)
  })
  const { port } = await listen(t, server)
  const called = async (number: number): Promise<Call> => {
    while (calls.length < number) await once(server, 'kept')
    return calls[number - 1] as Call
  }
  return { calls, called, origin: `http://127.0.0.1:${port}` }
}

test('a tick that went well calls the address, and one that failed its /fail with the reason', async (t) => {
  const cwd = temporaryFolder(t)
  const { calls, origin } = await monitor(t)
  const url = `${origin}/ping/secret/?rid=1&x=%20`
  const absent = await finish(t, ['tick', '--ping', url], { cwd })
  assert.equal(absent.code, 4)
  await runHere(['--db', addressIn(cwd), 'migrate'])
  assert.deepEqual(await finish(t, ['tick'], { cwd, env: { TRANCHE_PING_URL: url } }), {
    code: 0,
    out: '',
    err: '',
  })
  // A dry run does not call the monitor.
  await runHere(['--db', addressIn(cwd), 'tick', '--dry-run', '--ping', url])
  assert.deepEqual(calls, [
    { line: 'POST /ping/secret/fail?rid=1&x=%20', body: absent.err.replace(/^error: (.*)\n$/, '$1') },
    { line: 'GET /ping/secret/?rid=1&x=%20', body: '' },
  ])
  assert.match(calls[0]?.body ?? '', /There is no (tranche )?database/)
})

/** A database as a restore leaves it. */
async function layFrozen(db: string): Promise<void> {
  await runHere(['--db', db, 'migrate'])
  await damageAt(
    db,
    `insert into frozen values (1, 'restored', ${T0}, 'ops', 'restored from last-night.db', null, '[]')`,
  )
}

test('a tick on a frozen database is silent, exits 0, and calls /fail', async (t) => {
  const cwd = temporaryFolder(t)
  const { calls, origin } = await monitor(t)
  const db = addressIn(cwd)
  const tick = async (...more: string[]) => {
    const surroundings = more.length > 0 ? {} : { terminals: ['stdout'] as const }
    return runHere(
      ['--db', db, 'tick', '--price', '60000', '--ping', `${origin}/ping`, ...more],
      surroundings,
    )
  }
  await layFrozen(db)
  assert.deepEqual(
    await finish(t, ['tick', '--price', '60000', '--ping', `${origin}/ping`, '--db', db], { cwd }),
    { code: 0, out: '', err: '' },
  )
  const said = await tick('--json')
  assert.equal(said.code, 0)
  const { skipped, frozen, plans_evaluated } = JSON.parse(said.out)
  assert.deepEqual([skipped, frozen.kind, plans_evaluated], [true, 'restored', 0])
  const seen = await tick()
  assert.equal(seen.code, 0)
  assert.match(seen.out, /restored from last-night\.db.* `tranche resume`/)
  assert.deepEqual(
    calls.map(({ line }) => line),
    Array(3).fill('POST /ping/fail'),
  )
  assert.match(calls[0]?.body ?? '', /frozen since/)
  await runHere(['--db', db, 'resume', '--yes'])
  assert.equal('skipped' in JSON.parse((await tick('--json')).out), false)
  assert.equal(calls.at(-1)?.line, 'GET /ping')
})

test('serve on a frozen database says why once, ticks, and calls /fail each time', async (t) => {
  const cwd = temporaryFolder(t)
  const { calls, called, origin } = await monitor(t)
  const db = addressIn(cwd)
  await layFrozen(db)
  const args = ['--db', db, '--tick-every', '1s', '--ping', `${origin}/ping`]
  const served = await startServe(t, args, { cwd })
  await called(3)
  assert.deepEqual(new Set(calls.map(({ line }) => line)), new Set(['POST /ping/fail']))
  assert.match(calls[0]?.body ?? '', /frozen since/)
  await runHere(['--db', db, 'resume', '--yes'])
  while (calls.at(-1)?.line !== 'GET /ping') await called(calls.length + 1)
  served.child.kill('SIGTERM')
  assert.equal(await served.ended, 0)
  const lines = served
    .err()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
  // A repeated warning is not logged at every tick, and it is not an error.
  assert.equal(lines.filter(({ level, msg }) => level === 'warn' && /frozen since/.test(msg)).length, 1)
  assert.equal(lines.filter(({ level }) => level === 'error').length, 0)
  const ticks = lines.filter(({ msg }) => msg === 'tick')
  assert.ok(ticks.length >= 4)
  assert.deepEqual([ticks[0]?.frozen?.kind, ticks.at(-1)?.frozen], ['restored', undefined])
})

test('of the answer of a monitor only its head is waited for', async (t) => {
  const cwd = temporaryFolder(t)
  await runHere(['--db', addressIn(cwd), 'migrate'])
  // Its body never ends.
  const { calls, origin } = await monitor(t, (response) => response.write('x'))
  const ticked = await runHere(['--db', addressIn(cwd), 'tick', '--ping', `${origin}/secret`])
  assert.deepEqual([ticked, calls.length], [{ code: 0, out: '', err: '' }, 1])
})

test('serve calls it after each of its ticks, and is not held up by one that never answers', async (t) => {
  const cwd = temporaryFolder(t)
  const { calls, called, origin } = await monitor(t, () => {})
  const served = await startServe(t, ['--tick-every', '1s', '--ping', `${origin}/serve`], { cwd })
  assert.deepEqual(await called(3), { line: 'GET /serve', body: '' })
  served.child.kill('SIGTERM')
  assert.equal(await served.ended, 0)
  assert.match(served.err(), /"msg":"ping 127\.0\.0\.1:\d+: no answer within 5 s"/)
  assert.ok(calls.length < 10)
})

test('a check tells its own monitor of everything, and a daily one tells that of the ticks what it has found', async (t) => {
  const cwd = temporaryFolder(t)
  const { calls, origin } = await monitor(t)
  const [own, ofTicks] = [`${origin}/checks`, `${origin}/ticks`]
  await runHere(['--db', addressIn(cwd), 'migrate'])
  const check = (argv: string[], env: Record<string, string> = {}) =>
    finish(t, ['check', ...argv], { cwd, env: { TRANCHE_PING_URL: ofTicks, ...env } })
  assert.equal((await check([])).code, 0)
  // The server of the tests has no standby, which a daily check reports.
  if (!addressIn(cwd).startsWith('postgres')) assert.equal((await check(['--daily'])).code, 0)
  assert.deepEqual(calls.splice(0), [])
  assert.equal((await check([], { TRANCHE_CHECK_PING_URL: own })).code, 0)
  assert.deepEqual(calls.splice(0), [{ line: 'GET /checks', body: '' }])
  await runHere(['--db', addressIn(cwd), 'partner', 'create', 'acme', '--name', 'Acme'])
  await runHere(['--db', addressIn(cwd), 'key', 'create', 'acme', '--env', 'live', '--expires-in', '2d'])
  // An operator at a shell sees it, and the monitor is not called.
  assert.equal((await check(['--strict'])).code, 3)
  assert.deepEqual(calls.splice(0), [])
  const { code, out } = await check(['--daily'])
  assert.equal(code, 3)
  assert.deepEqual(calls.splice(0), [{ line: 'POST /ticks/fail', body: out.trimEnd() }])
  const gone = await check(['--daily', '--ping', own, '--db', 'none.db'])
  assert.equal(gone.code, 4)
  const [call] = calls.splice(0)
  assert.equal(call?.line, 'POST /checks/fail')
  assert.match(call?.body ?? '', /none\.db/)
})
