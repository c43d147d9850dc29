// The statements that cancel the executions of many plans at once do to each what core's rule says.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { cancel, isOpen } from '../../src/core/execution.ts'
import type { Instant } from '../../src/core/instant.ts'
import { unreserved, type Window } from '../../src/core/window.ts'
import { type ExecutionRow, executionOf } from '../../src/store/rows/execution.ts'
import { type WindowRow, windowOf } from '../../src/store/rows/window.ts'
import { SELECT_EXECUTION } from '../../src/store/sql/expressions.ts'
import { configure, type Database, openFile } from '../../src/store/sqlite/file/connection.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { createCancelOpen } from '../../src/store/sqlite/ledger/cancel-open.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { T0 } from './world.ts'

const CENT = 1_000_000n
const NOW = (T0 + 77_000) as Instant

type Tried = {
  plan: number
  window: number
  cents: number
  status: 'pending' | 'sent' | 'filled' | 'cancelled'
}

const tried: fc.Arbitrary<Tried> = fc.record({
  plan: fc.integer({ min: 1, max: 4 }),
  window: fc.integer({ min: 0, max: 2 }),
  cents: fc.integer({ min: 1, max: 5_000 }),
  status: fc.constantFrom('pending', 'sent', 'filled', 'cancelled'),
})

/** Four plans with two closed windows each and a current one, all with the same excess, and the executions in them. */
function fill(db: Database, executions: readonly Tried[], excess: bigint): void {
  db.exec(`delete from schedules; delete from executions; delete from windows; delete from plans; delete from users;
    insert into users (user_id, tenant_id, partner_user_id, consent_version, consent_timestamp, status, created_at,
      updated_at) values (1, 1, 'u', 'v', 0, 'linked', 0, 0);`)
  for (let plan = 1; plan <= 4; plan++) {
    db.prepare(
      `insert into plans values (?, 1, 1, 'p' || ?, 200000000000, 'daily', 1, 0, 'active', 0, 0)`,
    ).run(plan, plan)
    for (let window = 0; window < 3; window++) fillWindow(db, { plan, window, executions, excess })
  }
}

type Filling = { plan: number; window: number; executions: readonly Tried[]; excess: bigint }

function fillWindow(db: Database, of: Filling): void {
  const mine = of.executions.filter(({ plan, window }) => plan === of.plan && window === of.window)
  const sum = (...statuses: string[]): bigint =>
    mine
      .filter(({ status }) => statuses.includes(status))
      .reduce((total, { cents }) => total + BigInt(cents) * CENT, 0n)
  const [reserved, spent, budget] = [sum('pending', 'sent'), sum('filled'), 1_000_000n * CENT]
  const closed = of.window < 2
  const values = {
    plan: of.plan,
    window: of.window,
    excess: of.excess,
    reserved,
    spent,
    budget,
    left: budget - reserved - spent,
    id: of.plan * 10 + of.window,
  }
  db.prepare(
    `insert into windows (window_id, plan_id, window_start, window_end, budget, reserved, spent, released, closed_at,
       close_reason, excess)
     values (:id, :plan, :window, :window + 1, :budget, :reserved, :spent, :released, :at, :why, :excess)`,
  ).run({
    ...values,
    released: closed ? values.left : 0n,
    at: closed ? 5 : null,
    why: closed ? 'ended' : null,
  })
  if (!closed) {
    db.prepare(
      `insert into schedules select :plan, :id, 1, 9, null, null, :window, :window + 1, :budget, :left, 1, 1, null,
         null, null, 0, null, null, 3, 0`,
    ).run(values)
  }
  for (const [i, { status, cents }] of mine.entries()) {
    const delivered = status === 'pending' ? 0 : 1
    db.prepare(
      `insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
         trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at, cancelled_at)
       values (:name, 1, :plan, :id, :window, :i, :amount, 'clock', 0, 1, 0, :status, :delivered, :lease, :ended)`,
    ).run({
      ...values,
      i,
      status,
      delivered,
      name: `exec_${String(values.id).padStart(16, '0')}${String(i).padStart(16, '0')}`,
      amount: BigInt(cents) * CENT,
      lease: delivered ? 1 : null,
      ended: status === 'cancelled' ? 2 : null,
    })
  }
}

const windowsOf = (db: Database): Window[] =>
  db.prepare<[], WindowRow>('select * from windows order by window_id').all().map(windowOf)
const executionsOf = (db: Database) =>
  db.prepare<[], ExecutionRow>(`${SELECT_EXECUTION} order by e.execution_id`).all().map(executionOf)

test('cancelling a set of plans is cancelling each of their open executions', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  const db = openFile(file)
  t.after(() => db.close())
  configure(db)
  await migrate(db, file, () => T0)
  db.pragma('synchronous = off')
  db.exec(`insert into partners (partner_slug, name, status, min_tranche, created_at, updated_at)
    values ('acme', 'Acme', 'active', 500000000, 0, 0);
    insert into tenants values (1, 'acme', 'test');`)
  const cancelOpen = createCancelOpen(db)
  const planSets = fc.uniqueArray(fc.integer({ min: 1, max: 4 }))
  const excesses = fc.integer({ min: 0, max: 8_000 })
  fc.assert(
    fc.property(fc.array(tried, { maxLength: 30 }), planSets, excesses, (executions, planIds, cents) => {
      fill(db, executions, BigInt(cents) * CENT)
      const windows = new Map(windowsOf(db).map((window) => [window.windowId, window]))
      let cancelled = 0
      const expected = executionsOf(db).map((execution) => {
        const window = windows.get(execution.windowId)
        if (!window || !isOpen(execution) || !planIds.includes(execution.planId)) return execution
        const ended = cancel(execution, window, NOW)
        windows.set(execution.windowId, ended.window)
        cancelled += 1
        return ended.execution
      })
      assert.equal(cancelOpen(planIds, NOW), cancelled)
      assert.deepEqual(executionsOf(db), expected)
      assert.deepEqual(windowsOf(db), [...windows.values()])
      const fireable = db.prepare('select window_id, fireable from schedules order by window_id').raw().all()
      const current = [...windows.values()].filter(({ closed }) => closed === null)
      assert.deepEqual(
        fireable,
        current.map((window) => [BigInt(window.windowId), unreserved(window)]),
      )
    }),
    { numRuns: 60 },
  )
})
