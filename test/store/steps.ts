// The promises of each store to the shared transactions, and its cancelling of plans compared with core's rule.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import fc from 'fast-check'
import { cancel, type Execution, isOpen } from '../../src/core/execution.ts'
import type { Instant } from '../../src/core/time.ts'
import { unreserved, type Window } from '../../src/core/window.ts'
import { type ExecutionRow, executionOf, type WindowRow, windowOf } from '../../src/store/rows/ledger.ts'
import { SELECT_EXECUTION } from '../../src/store/sql/fragments.ts'
import { query } from '../../src/store/statement.ts'
import type { Base, ReadTx, Step } from '../../src/store/transaction.ts'
import { T0 } from './world.ts'

/** Opens a database with a table `kept` that has one integer column `x`, and no rows. */
export type OpenBase = (t: TestContext) => Promise<Base>

const KEEP = query('insert into kept (x) values (:x)')
const COUNT = query<{ rows: bigint }>('select count(*) as rows from kept')
const AMONG = query<{ x: bigint }>(({ among }) => `select x from kept where ${among('x', 'xs')} order by x`)
const BROKEN = query('insert into kept (y) values (:x)')

const kept = async ({ look }: Base): Promise<number> => Number((await look((tx) => tx.get(COUNT)))?.rows)
const keep = (tx: ReadTx, x: number): Step<unknown> => tx.run(KEEP, { x })

/** Each with its proof on a database of its own. */
export const stepPromises: Record<string, (t: TestContext, open: OpenBase) => Promise<void>> = {
  'steps answer in the order in which they stand, and are kept once all are done': async (t, open) => {
    const base = await open(t)
    const answers = await base.write(function* (tx) {
      const [first, seen] = yield* tx.together(keep(tx, 1), tx.get(COUNT))
      const [, second] = yield* tx.together(
        tx.when(false, () => keep(tx, 2)),
        tx.when(true, () => keep(tx, 3)),
      )
      return [first, seen?.rows, second, yield* tx.all(AMONG, { xs: [2, 3, 4] })]
    })
    assert.deepEqual(answers, [1, 1n, 1, [{ x: 3n }]])
    assert.equal(await kept(base), 2)
  },

  'a transaction with a step that was made and forgotten is refused, and keeps nothing': async (t, open) => {
    const base = await open(t)
    for (const forget of [
      (tx: ReadTx) => keep(tx, 2),
      (tx: ReadTx) => tx.together(keep(tx, 2), keep(tx, 3)),
      (tx: ReadTx) => [2, 3].map((x) => keep(tx, x)),
    ]) {
      const forgetful = base.write(function* (tx) {
        yield* keep(tx, 1)
        forget(tx)
      })
      await assert.rejects(forgetful, /steps of a transaction were made and never reached/)
    }
    assert.equal(await kept(base), 0)
    await assert.rejects(
      base.look((tx) => {
        tx.get(COUNT)
        return tx.get(COUNT)
      }),
      /1 steps of a transaction/,
    )
  },

  'a step that is reached twice is not done twice': async (t, open) => {
    const base = await open(t)
    const twice = base.write(function* (tx) {
      const step = keep(tx, 1)
      yield* step
      yield* step
    })
    await assert.rejects(twice, /for the second time/)
    assert.equal(await kept(base), 0)
  },

  'what a decision throws, and what a statement throws, undoes it all': async (t, open) => {
    const base = await open(t)
    const refused = base.write(function* (tx) {
      yield* tx.together(keep(tx, 1), keep(tx, 2))
      throw new Error('refused')
    })
    await assert.rejects(refused, /refused/)
    const broken = base.write(function* (tx) {
      yield* tx.together(keep(tx, 1), tx.run(BROKEN, { x: 2 }), keep(tx, 3))
    })
    await assert.rejects(broken)
    assert.equal(await kept(base), 0)
  },
}

// The statements that cancel the executions of many plans at once follow core's rule for each: on any store.

/** A database with a schema and only the rows of the test, in SQL that both stores accept. */
export type Cancelling = {
  exec: (sql: string) => Promise<unknown>
  all: <Row>(sql: string) => Promise<Row[]>
  cancelOpen: (planIds: readonly number[], now: Instant) => Promise<number>
}

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

const ANEW = `delete from schedules; delete from executions; delete from windows; delete from plans; delete from users;
  insert into users (user_id, tenant_id, partner_user_id, consent_version, consent_timestamp, status, created_at,
    updated_at) values (1, 1, 'u', 'v', 0, 'linked', 0, 0);`

/** Four plans with two closed windows each and a current one, all with the same excess, and their executions. */
function filling(executions: readonly Tried[], excess: bigint): string {
  const parts = [ANEW]
  for (let plan = 1; plan <= 4; plan++) {
    parts.push(
      `insert into plans (plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled,
         start_date, status, created_at, updated_at)
       values (${plan}, 1, 1, 'p${plan}', 200000000000, 'daily', 1, 0, 'active', 0, 0);`,
    )
    for (let window = 0; window < 3; window++) {
      const mine = executions.filter((one) => one.plan === plan && one.window === window)
      parts.push(windowText({ plan, window, excess, mine }), ...mine.map(executionText))
    }
  }
  return parts.join('\n')
}

type Filling = { plan: number; window: number; mine: readonly Tried[]; excess: bigint }

function windowText({ plan, window, mine, excess }: Filling): string {
  const sum = (...statuses: string[]): bigint =>
    mine
      .filter(({ status }) => statuses.includes(status))
      .reduce((total, { cents }) => total + BigInt(cents) * CENT, 0n)
  const [reserved, spent, budget] = [sum('pending', 'sent'), sum('filled'), 1_000_000n * CENT]
  const left = budget - reserved - spent
  const id = plan * 10 + window
  const end = window < 2 ? `${left}, 5, 'ended'` : '0, null, null'
  const made = `insert into windows (window_id, plan_id, window_start, window_end, budget, reserved, spent, excess,
      released, closed_at, close_reason)
    values (${id}, ${plan}, ${window}, ${window + 1}, ${budget}, ${reserved}, ${spent}, ${excess}, ${end});`
  if (window < 2) return made
  return `${made} insert into schedules (plan_id, window_id, awake, next_run_at, window_start, window_end, budget,
      fireable, floor, tranche_index, slot, extras_left, next_extra_at)
    values (${plan}, ${id}, 1, 9, ${window}, ${window + 1}, ${budget}, ${left}, 1, 1, 0, 3, 0);`
}

function executionText({ plan, window, cents, status }: Tried, i: number): string {
  const id = plan * 10 + window
  const name = `exec_${String(id).padStart(16, '0')}${String(i).padStart(16, '0')}`
  const delivery = status === 'pending' ? '0, null' : '1, 1'
  return `insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
      trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at, cancelled_at)
    values ('${name}', 1, ${plan}, ${id}, ${window}, ${i}, ${BigInt(cents) * CENT}, 'clock', 0, 1, 0, '${status}',
      ${delivery}, ${status === 'cancelled' ? 2 : null});`
}

type State = { windows: Window[]; executions: Execution[] }

/** The result by core, one execution after the other. */
function expected(seen: State, planIds: readonly number[]): State & { cancelled: number } {
  const windows = new Map(seen.windows.map((window) => [window.windowId, window]))
  let cancelled = 0
  const executions = seen.executions.map((execution) => {
    const window = windows.get(execution.windowId)
    if (!window || !isOpen(execution) || !planIds.includes(execution.planId)) return execution
    const ended = cancel(execution, window, NOW)
    windows.set(execution.windowId, ended.window)
    cancelled += 1
    return ended.execution
  })
  return { windows: [...windows.values()], executions, cancelled }
}

/** Compares a store's statements with core's rule. */
export async function proveCancelling({ exec, all, cancelOpen }: Cancelling): Promise<void> {
  await exec(`insert into partners (partner_slug, name, status, min_tranche, created_at, updated_at)
    values ('acme', 'Acme', 'active', 500000000, 0, 0);
    insert into tenants (tenant_id, partner_slug, environment) values (1, 'acme', 'test');`)
  const state = async (): Promise<State> => ({
    windows: (await all<WindowRow>('select * from windows order by window_id')).map(windowOf),
    executions: (await all<ExecutionRow>(`${SELECT_EXECUTION} order by e.execution_id`)).map(executionOf),
  })
  const planSets = fc.uniqueArray(fc.integer({ min: 1, max: 4 }))
  const excesses = fc.integer({ min: 0, max: 8_000 })
  await fc.assert(
    fc.asyncProperty(fc.array(tried, { maxLength: 30 }), planSets, excesses, async (made, planIds, cents) => {
      await exec(filling(made, BigInt(cents) * CENT))
      const { cancelled, ...wanted } = expected(await state(), planIds)
      assert.equal(await cancelOpen(planIds, NOW), cancelled)
      assert.deepEqual(await state(), wanted)
      assert.deepEqual(
        await all('select window_id, fireable from schedules order by window_id'),
        wanted.windows
          .filter(({ closed }) => closed === null)
          .map((window) => ({ window_id: BigInt(window.windowId), fireable: unreserved(window) })),
      )
    }),
    { numRuns: 60 },
  )
}
