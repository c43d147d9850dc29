// serve as its operators see it: its numbers, its token, and an end that nothing can put off.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { readExposition } from '../support/exposition.ts'
import { finish, startServe } from '../support/process.ts'
import { halfSent, withKey } from '../support/serve.ts'
import { PLAN, USER } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { hasTool } from '../support/tools.ts'

suite('serve and its operators', { concurrency: 4 }, () => {
  test('a call that stalls for longer than the drain limit does not keep serve alive', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, ['--drain-limit', '1s'], { cwd })
    await halfSent(served.url, key)
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.match(served.err(), /"waited_ms":1000,"msg":"stopped with calls still in flight"/)
    assert.ok(served.err().includes('"msg":"stopped"'))
  })

  test('what cron does shows in the metrics of serve, of which promtool has no complaint', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [], { cwd })
    await send(served.url, key, 'users', USER)
    await send(served.url, key, 'plans', PLAN)
    const metrics = async () => readExposition(await (await fetch(`${served.url}/metrics`)).text())
    const created = 'tranche_executions_created_total{environment="test"}'
    assert.equal((await metrics()).value(created), 0)
    assert.ok(!(await metrics()).has('tranche_last_tick_age_seconds'), 'a fresh install pages nobody')
    assert.equal((await finish(t, ['tick', '--price', '60000'], { cwd })).code, 0)
    const after = await metrics()
    assert.equal(after.value(created), 1)
    assert.equal(after.value('tranche_ticks_total{result="finished"}'), 1)
    assert.ok(after.value('tranche_last_tick_age_seconds') < 3600)
    // Another serve begins at 0: what was there before it is no increase.
    const later = await startServe(t, [], { cwd })
    const fresh = readExposition(await (await fetch(`${later.url}/metrics`)).text())
    assert.equal(fresh.value(created), 0)
    assert.equal(fresh.value('tranche_executions_due{environment="test"}'), 1)
    if (!hasTool(t, 'promtool')) return
    const input = await (await fetch(`${served.url}/metrics`)).text()
    execFileSync('promtool', ['check', 'metrics'], { input, stdio: 'pipe' })
  })

  test('--ops-token-file: a file without a token stops it, one with a token is what opens', async (t) => {
    const cwd = temporaryFolder(t)
    writeFileSync(join(cwd, 'short'), 'secret\n')
    const refused = await finish(t, ['serve', '--port', '0', '--ops-token-file', 'short'], { cwd })
    assert.equal(refused.code, 2)
    assert.ok(!refused.err.includes('secret'), refused.err)
    assert.ok(!existsSync(join(cwd, 'tranche.db')))
    const token = 'opensesame-opensesame'
    writeFileSync(join(cwd, 'token'), `${token}\n`)
    const served = await startServe(t, ['--ops-token-file', 'token'], { cwd })
    assert.equal((await fetch(`${served.url}/healthz`)).status, 401)
    const headers = { authorization: `Bearer ${token}` }
    assert.equal((await fetch(`${served.url}/healthz`, { headers })).status, 200)
    assert.ok(!served.err().includes(token))
  })
})

async function send(url: string, key: string, path: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${key}` }
  const call = { method: 'POST', headers, body: JSON.stringify(body) }
  assert.equal((await fetch(`${url}/partner/v1/${path}`, call)).status, 200)
}
