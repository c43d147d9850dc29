// Whether the scheduler is late: `check`, `status`, /readyz and /metrics give one answer, whatever the cadence of cron.

import assert from 'node:assert/strict'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import { createOps } from '../../src/http/ops/endpoints.ts'
import { createMetrics, EXPOSITION_TYPE } from '../../src/http/ops/metrics.ts'
import { createStockTaker } from '../../src/http/ops/readiness.ts'
import { type Machine, machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { PAGE_ROWS } from '../../src/store/statement.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { PLAN, runHere, type Service, startService, T0, USER } from '../support/service.ts'

type Watched = Service & {
  /** Adds or changes a live plan. */
  addPlan: (id: string, status?: 'active' | 'paused') => Promise<void>
  command: (...args: string[]) => Promise<string>
  samples: () => Promise<ReturnType<typeof readExposition>>
  /** The answer of all four, which must agree. */
  isLate: () => Promise<boolean>
}

/** `hostOffMs` is the error of the serving host's clock: the store has one of its own, as on a server. */
async function startWatched(t: TestContext, hostOffMs = 0): Promise<Watched> {
  let machine: Machine = machineAt(T0).machine
  const metrics = createMetrics()
  const service = await startService(t, {
    more: (store, own) => {
      machine = own
      const clock = () => plus(own.clock(), hostOffMs)
      const ops = createOps({ clock, metrics, exposition: EXPOSITION_TYPE, token: null })
      ops.opened(store)
      return { ops }
    },
  })
  const key = await service.issueKey('acme', 'live')
  await service.call('POST', '/partner/v1/users', USER, { key })
  const command = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await runHere(['--db', service.file, ...args], { machine })
    assert.deepEqual([code, err], [0, ''])
    return out
  }
  const samples = async () => readExposition(await (await fetch(`${service.opsUrl}/metrics`)).text())

  return {
    ...service,
    command,
    samples,

    async addPlan(id, status = 'active') {
      const body = { ...PLAN, partner_plan_id: id, status }
      assert.equal((await service.call('POST', '/partner/v1/plans', body, { key })).status, 200)
    },

    async isLate() {
      const { findings } = JSON.parse(await command('check', '--json')) as { findings: { kind: string }[] }
      const status = JSON.parse(await command('status', '--json')) as { scheduler: { late: boolean } }
      const ready = await fetch(`${service.opsUrl}/readyz`)
      const { reasons = [] } = (await ready.json()) as { reasons?: string[] }
      const answers = [
        findings.some(({ kind }) => kind === 'ticks_stopped'),
        status.scheduler.late,
        /^urgent +ticks_stopped +scheduler$/m.test(await command('status')),
        ready.status === 503 && reasons.some((reason) => reason.startsWith('The scheduler is late: ')),
        (await samples()).value('tranche_scheduler_late') === 1,
      ]
      const [first = false] = answers
      const same = Array(answers.length).fill(first)
      assert.deepEqual(answers, same, 'check, status, status in words, /readyz, /metrics')
      assert.equal(ready.status, first ? 503 : 200)
      return first
    },
  }
}

for (const hostOffMs of [DAY_MS, -DAY_MS])
  test(`a host whose clock is off by ${hostOffMs / HOUR_MS} h tells the same as all others`, async (t) => {
    const service = await startWatched(t, hostOffMs)
    await service.addPlan('p')
    await service.tick('60000')
    service.advance(HOUR_MS)
    await service.tick('60000')
    service.advance(3 * MINUTE_MS)
    assert.equal(await service.isLate(), false)
    service.advance(3 * HOUR_MS)
    assert.equal(await service.isLate(), true)
    assert.ok((await service.command('check')).includes(' ago; 1 h is usual'))
  })

test('plans that sleep and plans of test environments wait for nothing', async (t) => {
  const service = await startWatched(t)
  await service.addPlan('p')
  service.advance(HOUR_MS)
  assert.equal(await service.isLate(), true)
  await service.addPlan('p', 'paused')
  assert.equal(await service.isLate(), false)
  await service.call('POST', '/partner/v1/users', USER)
  await service.call('POST', '/partner/v1/plans', { ...PLAN, partner_plan_id: 'in test' })
  service.advance(HOUR_MS)
  assert.equal((await service.store.readScheduler()).waitingSince, null)
  assert.equal(await service.isLate(), false)
})

test('the first plan awake is found behind many that sleep, and unspent windows are counted to the last', async (t) => {
  const service = await startWatched(t)
  await service.addPlan('p')
  const db = new SQLite(service.file)
  t.after(() => db.close())
  // Pages of sleeping plans, and behind them the only other plan.
  db.pragma('foreign_keys = off')
  db.exec(`with recursive n(i) as (select 2 union all select i + 1 from n where i < 12000)
    insert into plans (plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled,
      start_date, status, created_at, updated_at)
    select i, tenant_id, user_id, 'p' || i, amount_usd, frequency, smart_timing_enabled, start_date, status,
      created_at + i, updated_at from n, plans where plan_id = 1`)
  db.exec(`insert into schedules select p.plan_id, s.window_id, p.plan_id = 12000, s.next_run_at, s.limit_price, s.clock_at,
      s.window_start, s.window_end, s.budget, s.fireable, s.floor, s.tranche_index, s.slots, s.units_per_slot,
      s.units_fired, s.slot, s.reference_price, s.half_width, s.extras_left, s.next_extra_at, 0
    from plans p join schedules s on s.plan_id = 1 where p.plan_id > 1`)
  assert.equal((await service.store.readScheduler()).waitingSince, T0)
  db.exec('update schedules set awake = 0 where plan_id = 1')
  assert.equal((await service.store.readScheduler()).waitingSince, T0 + 12_000)
  db.exec('update schedules set awake = 0')
  assert.equal((await service.store.readScheduler()).waitingSince, null)

  // More windows than two reads, each closed at another time.
  const windows = 2 * PAGE_ROWS + 1
  db.exec(`with recursive n(i) as (select 1 union all select i + 1 from n where i < ${windows})
    insert into windows (plan_id, window_start, window_end, budget, released, closed_at, close_reason)
    select 1, i, i + 1, 7, 7, ${T0} - i * 10, 'ended' from n`)
  const [unspent] = (await service.store.takeStock(T0)).unspent
  assert.deepEqual([unspent?.windows, unspent?.released], [windows, BigInt(7 * windows)])
})

test('the size of the log is the same through a symbolic link', async (t) => {
  const service = await startWatched(t)
  const link = join(temporaryFolder(t), 'link.db')
  symlinkSync(service.file, link)
  writeFileSync(`${link}-wal`, '')
  const store = await openStore(link, { clock: service.now, create: false })
  t.after(() => store.close())
  assert.ok(((await store.walBytes()) ?? 0) > 0)
  assert.equal(await store.walBytes(), await service.store.walBytes())
})

test('plans are counted at most once a minute', async (t) => {
  const { store, now, advance } = await startService(t)
  let counted = 0
  const counting: Pick<Store, 'takeStock'> = {
    takeStock: (at) => {
      counted += 1
      return store.takeStock(at)
    },
  }
  const takeStock = createStockTaker()
  const look = () => takeStock(counting, now())
  assert.deepEqual((await look()).plans.live, { active: 0, paused: 0, cancelled: 0 })
  advance(MINUTE_MS - 1)
  await look()
  assert.equal(counted, 1)
  advance(1)
  await look()
  assert.equal(counted, 2)
  advance(-2 * MINUTE_MS)
  await look()
  assert.equal(counted, 3)
})
