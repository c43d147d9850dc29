// Lists of a pass are complete and read once, in pages as long as others can wait for the write lock.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Price } from '../../src/core/money.ts'
import type { Instant } from '../../src/core/time.ts'
import { ANY_PRICE } from '../../src/core/window.ts'
import { createPassStore } from '../../src/store/shared/passes.ts'
import { createDriver } from '../../src/store/sqlite/driver.ts'
import {
  configure,
  connect,
  type Database,
  openFile,
  openInMemory,
  plannedOnce,
} from '../../src/store/sqlite/file/connection.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { createPageSize, eachOnce, ownPasses } from '../../src/store/sqlite/pass.ts'
import type { PassStore } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import { T0 } from './world.ts'

const at = (ms: number) => ms as Instant

async function prepared(t: TestContext): Promise<{ db: Database; scheduler: PassStore }> {
  const file = join(temporaryFolder(t), 'tranche.db')
  const db = openFile(file)
  t.after(() => db.close())
  configure(db)
  await migrate(db, file, () => T0)
  const connection = connect(db, () => T0)
  return { db, scheduler: createPassStore(createDriver(connection), ownPasses(connection, file)) }
}

/** More plans than one read fetches, and runs of equal values longer than a read and across its border. */
const ROWS = 25_000
const TIES: [what: string, value: string][] = [
  ['all alike', '1000'],
  ['no two alike', 'i'],
  ['runs that end within a read', 'i / 7000'],
  ['a run from one read to the next', 'case when i between 9000 and 21000 then 9000 else i end'],
]

test('the due set is complete and read once, however many plans are due at the same moment', async (t) => {
  const { db, scheduler } = await prepared(t)
  db.pragma('foreign_keys = off')
  for (const [what, value] of TIES) {
    db.exec(`delete from schedules;
      with recursive n (i) as (select 1 union all select i + 1 from n where i < ${ROWS})
      insert into schedules (plan_id, window_id, awake, next_run_at, limit_price, clock_at, window_start, window_end,
        budget, fireable, floor, tranche_index, slot, extras_left, next_extra_at)
      select i, 1, i % 5 <> 0, ${value}, ${value}, ${value}, case i % 3 when 0 then 7 else -1 end, ${value} + 100000, 1, 1, 1, 0, -1, 3, 0 from n`)
    const idsWhere = (condition: string) => {
      const sql = `select plan_id from schedules where awake = 1 and ${condition} order by plan_id`
      return db.prepare(sql).pluck().all().map(Number)
    }
    const due: [ranges: Parameters<typeof scheduler.listDuePlans>[0], condition: string][] = [
      [{ now: at(-1), livePrice: 0n as Price, leadMs: 0 }, 'true'],
      [{ now: at(-1), livePrice: 1000n as Price, leadMs: 0 }, 'limit_price >= 1000'],
      [{ now: at(-1), livePrice: 1001n as Price, leadMs: 0 }, 'limit_price >= 1001'],
      [{ now: at(1000), livePrice: null, leadMs: 0 }, 'clock_at <= 1000'],
      [{ now: at(-1), livePrice: null, leadMs: 111_001 }, 'window_end <= 111000 and window_start <= -1'],
      [{ now: at(12_000), livePrice: ANY_PRICE, leadMs: 0 }, 'next_run_at <= 12000'],
    ]
    for (const [ranges, condition] of due)
      assert.deepEqual(await scheduler.listDuePlans(ranges), idsWhere(condition), `${what}: ${condition}`)
  }
})

test('a pass takes smaller pages while another process writes', async (t) => {
  const { db, scheduler } = await prepared(t)
  db.pragma('foreign_keys = off')
  db.exec(`with recursive n (i) as (select 1 union all select i + 1 from n where i < 4000)
    insert into schedules (plan_id, window_id, awake, next_run_at, window_start, window_end, budget, fireable, floor,
      tranche_index, slot, extras_left, next_extra_at)
    select i, 1, 1, 1, 0, 100000, 1, 0, 1, 0, -1, 3, 0 from n`)
  const other = openFile(db.name)
  t.after(() => other.close())
  const turn = await scheduler.takePass()
  assert.ok(turn)
  // A page takes ten milliseconds.
  let nowMs = 0
  t.mock.method(performance, 'now', () => (nowMs += 10))
  const due = { now: at(1000), livePrice: null, leadMs: 0 }
  const decisions = { roll: () => null, decide: () => assert.fail(), newExecutionId: () => assert.fail() }
  const sizes: number[] = []
  const seen: number[] = []
  for await (const page of turn.duePages(due, 1_000)) {
    sizes.push(page.length)
    seen.push(...page)
    await scheduler.changeDuePlans(1, page, decisions)
    if (sizes.length === 3) other.exec('insert into price_imports select count(*), 1 from price_imports')
  }
  assert.deepEqual(sizes.slice(0, 6), [250, 375, 562, 224, 336, 504])
  const everyPlan = Array.from({ length: 4_000 }, (_, i) => i + 1)
  assert.deepEqual(seen, everyPlan)
})

// The pages of a pass on a file are as long as others can wait for the write lock.

/** The sizes of pages whose plans take so long each. */
function sizesOf(msOf: (at: number) => number, { pages = 12, isShared = false, max = 1_000 } = {}): number[] {
  const size = createPageSize()
  return Array.from({ length: pages }, (_, at) => {
    const plans = size.next(max, isShared)
    size.note({ plans, ms: plans * msOf(at) })
    return plans
  })
}

test('quick plans come in pages of as many as are allowed', () => {
  const sizes = sizesOf(() => 0.01, { pages: 4 })
  assert.deepEqual(sizes, [250, 500, 1_000, 1_000])
  assert.equal(sizesOf(() => 0.01, { max: 300 }).at(-1), 300)
})

test('slow plans come in pages of 15 ms, and of 4 ms where others write', () => {
  assert.equal(sizesOf(() => 0.05).at(-1), 300)
  assert.equal(sizesOf(() => 0.025, { isShared: true }).at(-1), 160)
})

test('the slowest plans still come by the hundred', () => {
  assert.equal(sizesOf(() => 10).at(-1), 100)
})

test('a page that the disk held up makes the next one small, and those after it grow again', () => {
  const sizes = sizesOf((at) => (at === 3 ? 1 : 0.015), { pages: 9 })
  assert.deepEqual(sizes, [250, 500, 1_000, 1_000, 100, 200, 400, 800, 1_000])
})

test('a plan by itself says nothing of pages', () => {
  const size = createPageSize()
  size.note({ plans: 1, ms: 5 })
  assert.equal(size.next(1_000, false), 250)
})

// The list of plans that a pass considers.

const list = (...ids: number[]): Float64Array => Float64Array.from(ids)

test('plans of several lists are listed once, in order', () => {
  assert.deepEqual(eachOnce([]), list())
  assert.deepEqual(eachOnce([list(), list()]), list())
  const lists = [list(10, 9, 100), list(), list(2, 100, 2 ** 52), list(9)]
  assert.deepEqual(eachOnce(lists), list(2, 9, 10, 100, 2 ** 52))
})

// SQL as it is passed to SQLite: parameters hidden from its planner, everything else unchanged.

const CASES: Record<string, [sql: string, planned: string]> = {
  'named ones': [
    'select a from t where b = :b and c in (:c, :c) limit :limit',
    'select a from t where b = +:b and c in (+:c, +:c) limit +:limit',
  ],
  marks: ['insert into t values (?, ?)', 'insert into t values (+?, +?)'],
  'not what is quoted': [
    `select ':a', "b?", 'it''s :c' from t where d = :d`,
    `select ':a', "b?", 'it''s :c' from t where d = +:d`,
  ],
  'not a comment': ['select 1 -- why? :a\nfrom t where b = ?', 'select 1 -- why? :a\nfrom t where b = +?'],
}

for (const [what, [sql, planned]] of Object.entries(CASES))
  test(`parameters are behind a plus: ${what}`, () => assert.equal(plannedOnce(sql), planned))

test('a value goes through as it is', () => {
  const db = openInMemory()
  const values = [7n, 2n ** 63n - 1n, 1.5, 'text', 'x:y?', null, Buffer.from('bytes')]
  const types = db.prepare(`select ${values.map(() => 'typeof(?)').join()}`).raw()
  assert.deepEqual(types.get(values), ['integer', 'integer', 'real', 'text', 'text', 'null', 'blob'])
  const same = db.prepare(`select ${values.map(() => '?').join()}`).raw()
  assert.deepEqual(same.get(values), values)
  db.close()
})
