// serve as a process: when it says it listens, how it stops, the scheduler inside it, and what its log holds.

import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { suite, test } from 'node:test'
import { finish, start, startServe } from '../support/process.ts'
import { halfSent, me, withKey } from '../support/serve.ts'
import { PLAN, USER } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

// Most of a test's time is a process that starts: several at once cost little more than one.
suite('serve', { concurrency: 4 }, () => {
  test('serve: ready when it says so, its log without secrets, SIGTERM ends it with 0', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [], { cwd })
    assert.match(served.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal((await me(served.url, key)).status, 200)
    assert.equal((await me(served.url, `${key.slice(0, -1)}x`)).status, 401)
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.equal(served.out(), '')
    const log = served.err()
    for (const line of log.trimEnd().split('\n')) assert.doesNotThrow(() => JSON.parse(line), line)
    assert.ok(log.includes('"route":"/partner/v1/me"'))
    assert.ok(!log.includes(key.slice('sse_test_'.length, -6)))
  })

  test('--tick-every off runs no pass, from the flag and from its variable', async (t) => {
    const cwd = temporaryFolder(t)
    const places = [
      { argv: ['--tick-every', 'off'], env: {} },
      { argv: [], env: { TRANCHE_TICK_EVERY: 'off' } },
    ]
    for (const { argv, env } of places) {
      const served = await startServe(t, argv, { cwd, env })
      assert.equal(JSON.parse(await served.line('"msg":"listening"')).tick_every_ms, null)
      served.child.kill('SIGTERM')
      assert.equal(await served.ended, 0)
      assert.doesNotMatch(served.err(), /"msg":"tick"/)
    }
  })

  test('a port that is taken: exit 1, and the port is named', async (t) => {
    const cwd = temporaryFolder(t)
    const { url } = await startServe(t, [], { cwd })
    const { port } = new URL(url)
    const { code, out, err } = await finish(t, ['serve', '--port', port, '--json'], { cwd })
    assert.deepEqual([code, out], [1, ''])
    assert.ok(JSON.parse(err).error.message.includes(port), err)
  })

  test('--tick-every runs passes beside the API', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, ['--tick-every', '1s', '--price-feed', 'static:60000'], { cwd })
    for (const [path, body] of [
      ['users', USER],
      ['plans', PLAN],
    ] as const) {
      const headers = { authorization: `Bearer ${key}` }
      const answer = await fetch(`${served.url}/partner/v1/${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      })
      assert.equal(answer.status, 200)
    }
    const tick = JSON.parse(await served.line('"executions_created":1'))
    assert.equal(tick.msg, 'tick')
    assert.equal(tick.price_usd, '60000.00')
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
  })

  test('SIGTERM lets a call in flight finish, keeps no idle connection, and takes no new one', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [], { cwd })
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    assert.equal(await idle(served.url, agent), 401)
    const call = await halfSent(served.url, key)
    served.child.kill('SIGTERM')
    await served.line('stopping')
    await assert.rejects(me(served.url, key))
    assert.equal(await call.finish(), 200)
    assert.equal(await served.ended, 0)
  })

  for (const [first, second] of [
    ['SIGTERM', 'SIGTERM'],
    ['SIGINT', 'SIGINT'],
    ['SIGTERM', 'SIGINT'],
  ] as const) {
    test(`${first} and then ${second} ends a serve that waits, with 130`, async (t) => {
      const { cwd, key } = await withKey(t)
      const served = await startServe(t, [], { cwd })
      await halfSent(served.url, key)
      served.child.kill(first)
      await served.line('stopping')
      served.child.kill(second)
      assert.equal(await served.ended, 130)
    })
  }

  test('one SIGINT stops as gently, and exits 130', async (t) => {
    const served = await startServe(t, [], { cwd: temporaryFolder(t) })
    served.child.kill('SIGINT')
    assert.equal(await served.ended, 130)
    assert.ok(served.err().includes('"msg":"stopped"'))
  })

  test('--log-format pretty has one line for each call', async (t) => {
    const { cwd, key } = await withKey(t)
    const pretty = start(t, ['serve', '--port', '0', '--log-format', 'pretty'], { cwd })
    const [url = ''] = /http:\S+/.exec(await pretty.line('listening')) ?? []
    assert.equal((await me(url, key)).status, 200)
    assert.match(
      await pretty.line('request'),
      /^\[[\d:]+\] INFO: request method=GET route=\/partner\/v1\/me partner_slug=acme environment=test status=200 duration_ms=[\d.]+$/,
    )
    assert.equal(pretty.err().trimEnd().split('\n').length, 2)
  })

  test('--log-format pretty has colour only where it is wanted', async (t) => {
    const looks = async (argv: string[], env: Record<string, string>): Promise<boolean> => {
      const cwd = temporaryFolder(t)
      const format = ['--log-format', 'pretty', ...argv]
      const pretty = start(t, ['serve', '--port', '0', ...format], { cwd, env })
      await pretty.line('listening')
      return pretty.err().includes('\u001b')
    }
    const seen = await Promise.all([
      looks([], { FORCE_COLOR: '1' }),
      looks([], {}),
      looks([], { FORCE_COLOR: '1', NO_COLOR: '1' }),
      looks(['--no-color'], { FORCE_COLOR: '1' }),
    ])
    assert.deepEqual(seen, [true, false, false, false])
  })
})

/** Makes a call whose connection then stays open and idle. */
const idle = (url: string, agent: Agent): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const call = request(`${url}/partner/v1/me`, { agent }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode))
    })
    call.on('error', reject).end()
  })
