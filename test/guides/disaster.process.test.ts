// docs/disaster.md, block by block, as somebody would paste it on the morning after; and a service's answers meanwhile.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { formatInstant } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import { temporaryFolder } from '../support/database.ts'
import { paste, startServe, WITH_OPS } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { callAt, fill, PLAN, USER } from '../support/service.ts'

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/disaster.md'), 'utf8')
const BLOCKS = blocksOf(GUIDE, 'sh')

type Due = { execution_id: string; partner_plan_id: string }

test('every block of the guide does what it says, and a service on the restored database is frozen', async (t) => {
  const cwd = temporaryFolder(t)
  const env = {
    TRANCHE_DB: join(cwd, 'tranche.db'),
    COPY: join(cwd, 'last-night.db'),
    ORDERS: join(cwd, 'orders.csv'),
    MONTH: formatInstant(machine.clock()).slice(0, 7),
  }
  const run = async (script: string): Promise<string> => {
    const { code, out, err } = await paste(t, script, { cwd, env })
    assert.equal(code, 0, `${script}: ${err}`)
    return out
  }
  const key = await run('tranche partner create acme --name Acme >&2; tranche key create acme --env live')
  const serving = async () => {
    const serve = await startServe(t, [...WITH_OPS], { cwd, env })
    const call = (method: string, path: string, body?: object) =>
      callAt({ url: serve.url, key: key.trim() }, method, path, body)
    const stop = async () => {
      serve.child.kill('SIGTERM')
      await serve.ended
    }
    return { ...serve, call, stop }
  }

  const first = await serving()
  await first.call('POST', 'users', { ...USER, email: 'ann@example.org' })
  for (const partner_plan_id of ['p1', 'p2']) await first.call('POST', 'plans', { ...PLAN, partner_plan_id })
  await run(
    'tranche tick --price 60000; tranche billing export --month "$MONTH" --report trades --output "$ORDERS"',
  )
  const due: Due[] = (await first.call('GET', 'executions/due')).body
  assert.equal(due.length, 2)
  await run('tranche backup "$COPY"')
  const [cancelled, kept] = ['p1', 'p2'].map((id) => due.find((one) => one.partner_plan_id === id))
  assert.equal((await first.call('POST', 'plans', { ...PLAN, status: 'cancelled' })).status, 200)
  await first.stop()
  await run('tranche user erase acme u1 --env live --yes')

  const isResume = (block: string) => block.includes('tranche resume')
  const before = BLOCKS.slice(0, BLOCKS.findIndex(isResume))
  assert.ok(before.length >= 4)
  const out = await run(before.join('\n'))
  assert.match(out, /is frozen: nothing fires and nothing is delivered until `tranche resume`/)
  assert.match(out, /Stopped since the copy was made, and stopped again:\n {2}plan_cancelled acme live p1\n/)
  assert.match(out, /1 user erased again/)
  assert.match(out, /frozen +since \S+Z by \S+: restored from /)
  assert.match(out, /database\.carry_stop/)

  const frozen = await serving()
  const polled = await frozen.call('GET', 'executions/due')
  const told = [polled.status, polled.headers.get('x-error-code'), polled.headers.get('retry-after')]
  assert.deepEqual(told, [503, 'service_frozen', '60'])
  assert.match(polled.body.detail ?? '', /^The service is frozen: its database was restored from a backup\./)
  assert.ok(!polled.body.detail?.includes(cwd))
  assert.equal((await frozen.call('POST', 'users', USER)).status, 200)
  const confirm = (id: string, order: string) =>
    frozen.call('POST', `executions/${id}/confirm`, fill(order, '1.00'))
  const confirmed = await confirm(kept?.execution_id ?? '', 'o2')
  assert.equal(confirmed.status, 200, JSON.stringify(confirmed.body))
  assert.equal((await confirm(kept?.execution_id ?? '', 'o2')).body.replayed, true)
  assert.equal((await confirm(cancelled?.execution_id ?? '', 'o1')).status, 409)
  const readyz = await fetch(`${frozen.opsUrl}/readyz`)
  assert.equal(readyz.status, 200)
  assert.match(await readyz.text(), /"kind":"restored"/)
  assert.match(await (await fetch(`${frozen.opsUrl}/metrics`)).text(), /^tranche_frozen 1$/m)
  assert.match(await (await fetch(`${frozen.opsUrl}/ops`)).text(), /database_frozen/)
  // Cron would mail each line of it, every minute.
  assert.deepEqual(await paste(t, 'tranche tick --price 60000', { cwd, env }), { code: 0, out: '', err: '' })

  const after = await run(BLOCKS.slice(BLOCKS.findIndex(isResume) - 1).join('\n'))
  assert.match(after, /is no longer frozen; \d+ plans? will be due at the next tick/)
  assert.equal((await frozen.call('GET', 'executions/due')).status, 200)
  assert.match(await (await fetch(`${frozen.opsUrl}/metrics`)).text(), /^tranche_frozen 0$/m)
  assert.equal((await frozen.call('POST', 'users', USER)).status, 200)
  await frozen.stop()
  assert.match(await run('tranche execution late-fills'), /o1/)
})
