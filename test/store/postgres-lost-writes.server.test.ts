// A server that came back without writes that it had answered: a process that was told they are committed notices, and
// nothing is fired or handed out until somebody has decided. What has lost nothing is silent.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { openStore } from '../../src/store/postgres/open.ts'
import { lacksAcknowledged, type ServerState, UNKNOWN } from '../../src/store/postgres/server/connection.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import { proxyTo, type Server, startServer, startStandby } from '../support/postgres-server.ts'
import { finish, startServe, WITH_OPS } from '../support/process.ts'
import { PLAN, USER } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { until, within } from '../support/within.ts'
import { AUDIT, link, populate } from './world.ts'

const WAIT_MAX_MS = 60_000
const DATABASE = 'ledger'

/** A primary and a standby that follows it, and a way that leads to the primary, for a role without any rights. */
async function stage(t: TestContext) {
  const primary = await startServer({ wal_level: 'replica' })
  t.after(primary.stop)
  await primary.ask('create role app login')
  await primary.ask(`create database ${DATABASE} owner app`)
  const standby = await startStandby(primary)
  t.after(standby.stop)
  const way = await proxyTo(t, primary, DATABASE)
  const url = way.url.replace('tranche@', 'app@')

  /** Resolves when the standby has everything that the primary has by now. */
  const caughtUp = async (): Promise<void> => {
    const [at] = await primary.ask<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn')
    await until(WAIT_MAX_MS, 'a standby that has caught up', async () => {
      const [row] = await standby.ask<{ has: boolean }>(
        `select pg_last_wal_replay_lsn() >= '${at?.lsn}' as has`,
      )
      return row?.has
    })
  }
  return {
    primary,
    standby,
    way,
    url,
    caughtUp,
    /** The standby gets nothing from now on. */
    async leaveBehind(): Promise<void> {
      await caughtUp()
      await standby.ask(`alter system set primary_conninfo = ''`)
      await standby.ask('select pg_reload_conf()')
      await until(WAIT_MAX_MS, 'a standby that follows nobody', async () => {
        const rows = await primary.ask('select from pg_stat_replication')
        return rows.length === 0
      })
    },
    /** The primary ends, and the standby takes its place. */
    async takeOver(how: 'SIGQUIT' | 'SIGINT'): Promise<void> {
      primary.kill(how)
      await hasEnded(primary)
      await standby.ask('select pg_promote()')
      way.cut()
      way.leadTo(standby)
    },
  }
}

async function hasEnded({ folder }: Server): Promise<void> {
  while (existsSync(join(folder, 'data/postmaster.pid'))) await pause(20)
}

async function storeAt(t: TestContext, url: string): Promise<Store> {
  const store = await openStore(url, { clock: null, create: true })
  t.after(() => store.close())
  return store
}

test('a serve whose server lost what it had answered says so, hands out nothing, and goes on when told to', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { leaveBehind, takeOver, url, standby } = await stage(t)
  const options = { cwd: temporaryFolder(t), env: { TRANCHE_DB: url } }
  const run = (...argv: string[]) => finish(t, argv, options)
  const succeed = async (...argv: string[]): Promise<string> => {
    const { code, out, err } = await run(...argv)
    assert.equal(code, 0, `${argv.join(' ')}: ${out}${err}`)
    return out.trim()
  }
  await succeed('partner', 'create', 'acme', '--name', 'Acme')
  const key = await succeed('key', 'create', 'acme', '--env', 'live')
  const serve = await startServe(t, [...WITH_OPS], options)
  const callOn =
    (base: string) =>
    async (path: string, body?: unknown): Promise<{ status: number; body: never }> => {
      const method = body === undefined ? 'GET' : 'POST'
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const answer = await fetch(`${base}/partner/v1/${path}`, {
        method,
        headers,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      return { status: answer.status, body: (await answer.json()) as never }
    }
  const call = callOn(serve.url)
  assert.equal((await call('users', USER)).status, 200)
  assert.equal((await call('plans', PLAN)).status, 200)
  await succeed('tick', '--price', '60000')
  const due = (await call('executions/due')).body as { execution_id: string; amount_usd: string }[]
  assert.equal(due.length, 1)
  await leaveBehind()
  const fill = {
    partner_order_id: 'order-1',
    status: 'filled',
    usd_amount: due[0]?.amount_usd,
    btc_amount: '0.0001',
    execution_price: '60000',
  }
  const confirm = () => call(`executions/${due[0]?.execution_id}/confirm`, fill)
  assert.equal((await confirm()).status, 200)

  await takeOver('SIGQUIT')
  // Nobody calls: the service looks by itself.
  const line = JSON.parse(await within(WAIT_MAX_MS, 'a line in the log', serve.line('came back without')))
  assert.equal(line.level, 'error')
  assert.deepEqual([line.writes, line.tenants], [1, 'acme live'])
  assert.match(line.server, /^timeline 2, recovered up to .* of timeline 1$/)
  const polled = await call('executions/due')
  assert.equal(polled.status, 503)
  assert.match(JSON.stringify(polled.body), /stands still/)
  assert.equal((await call('plans', PLAN)).status, 503)
  const ready = await fetch(`${serve.opsUrl}/readyz`)
  assert.equal(ready.status, 503)
  assert.match(await ready.text(), /stands still/)
  assert.match(
    await (await fetch(`${serve.opsUrl}/metrics`)).text(),
    /tranche_findings\{[^}]*"writes_lost"[^}]*\} 1/,
  )
  const tick = await run('tick', '--price', '60000', '--json')
  assert.deepEqual([tick.code, JSON.parse(tick.err).error.code], [5, 'writes_lost'])
  const found = JSON.parse(await succeed('status', '--json')).findings.find(
    ({ kind }: { kind: string }) => kind === 'writes_lost',
  )
  assert.equal(found.severity, 'page')
  assert.match(found.message, /1 write or more that had been answered/)
  assert.match((await run('check')).out, /writes_lost/)
  // What was bought is recorded: the partner sends its confirmation again.
  assert.deepEqual([(await confirm()).status, (await confirm()).body['replayed' as never]], [200, true])

  serve.child.kill('SIGKILL')
  await serve.ended
  const later = await startServe(t, [], options)
  assert.equal((await callOn(later.url)('executions/due')).status, 503)
  await later.line('came back without')
  assert.equal((await run('restore')).code, 2)
  assert.match(await succeed('restore', '--resume'), /goes on, without 1 write/)
  assert.equal((await run('restore', '--resume')).code, 2)
  assert.equal((await callOn(later.url)('executions/due')).status, 200)
  await succeed('tick', '--price', '60000')
  assert.equal((await succeed('status')).includes('came back without'), false)
  const [entry] = await standby.ask<{ n: string }>(
    `select count(*) as n from tranche.audit where action = 'database.resume'`,
    DATABASE,
  )
  assert.equal(entry?.n, '1')
})

test('a write notices a lost one before it does anything, and a former primary lacks what came after it', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { primary, leaveBehind, takeOver, way, url } = await stage(t)
  const store = await storeAt(t, url)
  const { acmeLive, bolt } = await populate(store)
  await leaveBehind()
  await link(store, acmeLive, 'lost')
  await takeOver('SIGQUIT')
  await assert.rejects(link(store, acmeLive, 'later'), { code: 'writes_lost' })
  const lost = await store.readLostWrites()
  assert.deepEqual([lost?.writes, lost?.tenants], [1, 'acme live'])
  await store.resume(AUDIT)
  assert.equal(await store.readLostWrites(), null)
  await link(store, bolt, 'on the new line')
  // Somebody starts the one that fell over.
  await primary.again()
  way.cut()
  way.leadTo(primary)
  await assert.rejects(link(store, bolt, 'again'), { code: 'writes_lost' })
  // The audited decision as well.
  const gone = await store.readLostWrites()
  assert.deepEqual([gone?.writes, gone?.tenants], [2, 'bolt test'])
})

test('what an operator was told is done, and is lost, is noticed by a service that saw it', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { leaveBehind, takeOver, url } = await stage(t)
  const service = await storeAt(t, url)
  await populate(service)
  await leaveBehind()
  const operator = await openStore(url, { clock: null, create: false })
  await operator.changePartner('acme', (seen) => ({ ...seen, status: 'disabled' as const }), AUDIT)
  await operator.close()
  assert.equal(await service.readLostWrites(), null)
  await takeOver('SIGQUIT')
  assert.equal((await service.readLostWrites())?.writes, 1)
  await service.resume(AUDIT)
  assert.equal(await service.readLostWrites(), null)
})

/** What a server goes through without losing anything. */
const HARMLESS: Record<string, (at: Awaited<ReturnType<typeof stage>>) => Promise<void>> = {
  'a planned switchover': ({ takeOver }) => takeOver('SIGINT'),
  async 'a crash of a primary whose standby has everything'({ takeOver, caughtUp }) {
    await caughtUp()
    await takeOver('SIGQUIT')
  },
  async 'a crash and its recovery'({ primary, way }) {
    primary.kill('SIGQUIT')
    await hasEnded(primary)
    await primary.again()
    way.cut()
  },
  async 'statistics that begin anew'({ primary }) {
    await primary.ask(`select pg_stat_reset_shared('bgwriter')`)
  },
}

for (const [name, happens] of Object.entries(HARMLESS))
  test(`nothing is said of ${name}`, async (t) => {
    if (!hasTool(t, 'postgres')) return
    const at = await stage(t)
    const store = await storeAt(t, at.url)
    const { acmeLive } = await populate(store)
    for (let n = 0; n < 20; n++) await link(store, acmeLive, `before ${n}`)
    // As serve does all the time.
    assert.equal(await store.readLostWrites(), null)
    await happens(at)
    await link(store, acmeLive, 'after')
    assert.equal(await store.readLostWrites(), null)
    await assert.rejects(store.resume(AUDIT), { code: 'usage' })
  })

test('what is lost and what is not, by the line, the position and the number of a write', () => {
  const server: ServerState = { timeline: '00000002', memory: '', replayed: '1/A0', position: '2/0' }
  const write = (position: string, timeline = '00000001') => ({
    mark: { xid: '7', position, timeline, memory: '' },
  })
  assert.equal(lacksAcknowledged(write('1/9F'), server, 'committed'), false)
  assert.equal(lacksAcknowledged(write('1/A0'), server, 'committed'), false)
  assert.equal(lacksAcknowledged(write('1/A1'), server, 'committed'), true)
  assert.equal(lacksAcknowledged(write('0/FFFFFFFF'), server, 'committed'), false)
  assert.equal(lacksAcknowledged(write('1/10'), server, 'aborted'), true)
  assert.equal(lacksAcknowledged(write('1/10'), server, 'future'), true)
  assert.equal(lacksAcknowledged(write('1/10'), server, null), false, 'too old to be known')
  assert.equal(lacksAcknowledged(write('1/A1'), { ...server, replayed: null }, 'committed'), false)
  assert.equal(lacksAcknowledged(write('1/A1', '00000002'), server, 'committed'), false)
  assert.equal(
    lacksAcknowledged(write('2/1', '00000002'), server, 'committed'),
    true,
    'set back on its own line',
  )
  assert.equal(
    lacksAcknowledged(write('0/1', '00000003'), server, 'committed'),
    true,
    'of a line it knows nothing of',
  )
  assert.equal(
    lacksAcknowledged(write(UNKNOWN, '00000003'), server, 'committed'),
    false,
    'made by somebody else',
  )
  assert.equal(lacksAcknowledged(write(UNKNOWN), server, 'future'), true)
})
