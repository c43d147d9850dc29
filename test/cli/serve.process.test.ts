// serve as a process: when it says it listens, how it stops, and what its log holds.

import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { finish, start, startServe } from '../support/process.ts'
import { halfSent, me, withKey } from '../support/service.ts'

// Most of a test's time is a process that starts: several at once cost little more than one.
suite('serve', { concurrency: 4 }, () => {
  test('serve: ready when it says so, its log without secrets, its port its own, SIGTERM ends it with 0', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [], { cwd, env: { TRANCHE_TICK_EVERY: 'off' } })
    assert.match(served.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal((await me(served.url, key)).status, 200)
    assert.equal((await me(served.url, `${key.slice(0, -1)}x`)).status, 401)
    const { port } = new URL(served.url)
    const second = await finish(t, ['serve', '--port', port, '--json'], { cwd })
    assert.deepEqual([second.code, second.out], [1, ''])
    assert.ok(JSON.parse(second.err).error.message.includes(port), second.err)
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.equal(served.out(), '')
    const log = served.err()
    for (const line of log.trimEnd().split('\n')) assert.doesNotThrow(() => JSON.parse(line), line)
    assert.ok(log.includes('"route":"/partner/v1/me"'))
    assert.ok(!log.includes(key.slice('sse_test_'.length, -6)))
    assert.match(log, /"tick_every_ms":null/)
    assert.doesNotMatch(log, /"msg":"tick"/)
  })

  test('SIGTERM lets a call in flight finish, keeps no idle connection, and takes no new one', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, ['--tick-every', 'off'], { cwd })
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    assert.equal(await idle(served.url, agent), 401)
    const call = await halfSent(served.url, key)
    served.child.kill('SIGTERM')
    await served.line('stopping')
    await assert.rejects(me(served.url, key))
    assert.equal(await call.finish(), 200)
    assert.equal(await served.ended, 0)
    assert.doesNotMatch(served.err(), /"msg":"tick"/)
  })

  // Beside it, what takes the colour out of a pretty log that would have it.
  for (const [second, argv, env] of [
    ['SIGINT', ['--no-color'], { FORCE_COLOR: '1' }],
    ['SIGTERM', [], { FORCE_COLOR: '1', NO_COLOR: '1' }],
  ] as const) {
    test(`SIGINT and then ${second} ends a serve that waits, with 130`, async (t) => {
      const { cwd, key } = await withKey(t)
      const { served, url } = await startPretty(t, argv, { cwd, env })
      await halfSent(url, key)
      served.child.kill('SIGINT')
      await served.line('stopping')
      served.child.kill(second)
      assert.equal(await served.ended, 130)
      assert.ok(!served.err().includes('\u001b'))
    })
  }

  test('--log-format pretty has one line for each call; one SIGINT stops as gently, and exits 130', async (t) => {
    const { cwd, key } = await withKey(t)
    const { served, url } = await startPretty(t, [], { cwd })
    assert.equal((await me(url, key)).status, 200)
    assert.match(
      await served.line('request'),
      /^\[[\d:]+\] INFO: request method=GET route=\/partner\/v1\/me partner_slug=acme environment=test status=200 duration_ms=[\d.]+$/,
    )
    assert.equal(served.err().trimEnd().split('\n').length, 2)
    served.child.kill('SIGINT')
    assert.equal(await served.ended, 130)
    assert.match(served.err(), /INFO: stopped\n$/)
  })

  test('--log-format pretty has colour where it is wanted', async (t) => {
    const env = { FORCE_COLOR: '1' }
    const { served } = await startPretty(t, [], { cwd: temporaryFolder(t), env })
    assert.ok(served.err().includes('\u001b'))
  })
})

/** Starts a serve that logs for people. */
async function startPretty(t: TestContext, argv: readonly string[], where: Parameters<typeof start>[2]) {
  const served = start(t, ['serve', '--port', '0', '--log-format', 'pretty', ...argv], where)
  const [url = ''] = /http:[\w./:]+/.exec(await served.line('listening')) ?? []
  return { served, url }
}

/** Makes a call whose connection then stays open and idle. */
const idle = (url: string, agent: Agent): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const call = request(`${url}/partner/v1/me`, { agent }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode))
    })
    call.on('error', reject).end()
  })
