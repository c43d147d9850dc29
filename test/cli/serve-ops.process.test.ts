// serve as its operators see it: its numbers, its token, and an end that nothing can put off.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { finish, startServe, WITH_OPS } from '../support/process.ts'
import { halfSent, PLAN, serveRefused, USER, withKey } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'

suite('serve and its operators', { concurrency: 4 }, () => {
  test('what cron does shows in the metrics of serve, of which promtool has no complaint; nothing puts off its end', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [...WITH_OPS, '--drain-limit', '1s'], { cwd })
    assert.equal((await fetch(`${served.url}/metrics`)).status, 401)
    const place = new URL(served.opsUrl).host
    const taken = await finish(t, ['serve', '--port', '0', '--ops-listen', place], { cwd })
    assert.deepEqual([taken.code, taken.out], [1, ''])
    assert.match(
      taken.err,
      /Cannot listen on port \d+ of "127\.0\.0\.1": it is taken; stop what listens there, or choose another port\./,
    )
    await send(served.url, key, 'users', USER)
    await send(served.url, key, 'plans', PLAN)
    const metrics = async () => readExposition(await (await fetch(`${served.opsUrl}/metrics`)).text())
    const created = 'tranche_executions_created_total{environment="test"}'
    assert.equal((await metrics()).value(created), 0)
    assert.ok(!(await metrics()).has('tranche_last_tick_age_seconds'), 'a fresh install pages nobody')
    assert.equal((await finish(t, ['tick', '--price', '60000'], { cwd })).code, 0)
    const after = await metrics()
    assert.equal(after.value(created), 1)
    assert.equal(after.value('tranche_ticks_total{result="finished"}'), 1)
    assert.ok(after.value('tranche_last_tick_age_seconds') < 3600)
    // Another serve begins at 0: what was there before it is not an increase.
    const later = await startServe(t, WITH_OPS, { cwd })
    const fresh = readExposition(await (await fetch(`${later.opsUrl}/metrics`)).text())
    assert.equal(fresh.value(created), 0)
    assert.equal(fresh.value('tranche_executions_due{environment="test"}'), 1)
    // A stop waits for neither listener's idle connections.
    later.child.kill('SIGTERM')
    assert.equal(await later.ended, 0)
    const input = await (await fetch(`${served.opsUrl}/metrics`)).text()
    // A call that stalls for longer than the drain limit does not keep serve alive.
    await halfSent(served.url, key)
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.match(served.err(), /"waited_ms":1000,"msg":"stopped with calls still in flight"/)
    assert.ok(served.err().includes('"msg":"stopped"'))
    if (hasTool(t, 'promtool')) execFileSync('promtool', ['check', 'metrics'], { input, stdio: 'pipe' })
  })

  test('--ops-token-file: a file without a token stops it, one with a token is what opens', async (t) => {
    const cwd = temporaryFolder(t)
    const weak = ['a'.repeat(32), '0110'.repeat(8), 'passwordpassword', '1234567890123456']
    for (const wrong of ['secret', 'sse_live_0123456789abcdef', `${'a'.repeat(20)} b`, ...weak]) {
      writeFileSync(join(cwd, 'wrong'), `${wrong}\n`)
      const refused = await serveRefused(cwd, '--ops-token-file', join(cwd, 'wrong'))
      assert.equal(refused.code, 2)
      assert.ok(!refused.err.includes(wrong), refused.err)
    }
    // Where others reach it, a listener of its own needs one.
    const open = await serveRefused(cwd, '--ops-listen', '0.0.0.0:0')
    assert.equal(open.code, 2)
    assert.match(open.err, /--ops-listen 0\.0\.0\.0.* needs --ops-token-file/)
    const token = 'opensesame-7c1f0a94b3'
    writeFileSync(join(cwd, 'token'), `${token}\n`)
    const argv = ['--ops-token-file', 'token', '--ops-listen', '0.0.0.0:0']
    const served = await startServe(t, argv, { cwd, env: { TRANCHE_OPS_LISTEN: 'off' } })
    const opsUrl = served.opsUrl.replace('0.0.0.0', '127.0.0.1')
    const headers = { authorization: `Bearer ${token}` }
    for (const url of [served.url, opsUrl]) {
      assert.equal((await fetch(`${url}/metrics`)).status, 401)
      assert.equal((await fetch(`${url}/metrics`, { headers })).status, 200)
      assert.equal((await fetch(`${url}/healthz`)).status, 200)
    }
    for (let i = 0; i < 25; i++)
      await fetch(`${served.url}/metrics`, { headers: { authorization: `Bearer ${i}` } })
    await served.line('somebody may be guessing the ops token')
    for (const url of [served.url, opsUrl])
      assert.equal((await fetch(`${url}/metrics`, { headers })).status, 200)
    assert.ok(!served.err().includes(token))
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
  })
})

async function send(url: string, key: string, path: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${key}` }
  const call = { method: 'POST', headers, body: JSON.stringify(body) }
  assert.equal((await fetch(`${url}/partner/v1/${path}`, call)).status, 200)
}
