// The contract of every store, on SQLite. And how SQLite runs every statement that the program has prepared meanwhile:
// along keys and indexes, whatever the file holds, and whatever an `analyze` has left in it. A statement that reads all
// of a growing table is in the list below, with the reason.

import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { copyDatabase } from '../../src/copy.ts'
import type { Instant } from '../../src/core/time.ts'
import { fileDatabase } from '../../src/store/sqlite/database.ts'
import { type Database, openFile, plannedOnce } from '../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { layFresh, temporaryFolder } from '../support/database.ts'
import { addYear, fill } from '../support/large-database.ts'
import { storeContract } from './contract.ts'
import { open } from './sqlite.ts'
import { statementsOfSuite } from './statements.ts'
import { AUDIT, noted, populate, T0 } from './world.ts'

let prepared: ReadonlySet<string> = new Set()

suite('on a file', () => {
  prepared = statementsOfSuite()
  storeContract('SQLite', new URL('./sqlite.ts', import.meta.url))

  test('what the contract leaves out: the page of the operator, a move to another file and back', async (t) => {
    const folder = temporaryFolder(t)
    const store = await open(folder, () => T0)
    await store.sumTradesAfter({ recordedAt: 0 as Instant, executionId: '' as never }, T0, 1)
    await store.listOpenWindows(1)
    await store.samplePrices({ since: 0 as Instant, until: 1 as Instant }, 1)
    await populate(store)
    await store.eraseAgain({ remembered: new Map([['no user has this hash', T0]]), replaced: [] }, noted)
    const executions = { slug: null, environment: null, status: null, stuck: false }
    await store.listExecutions({ ...executions, since: T0 }, { after: null, limit: 1 })
    await store.cursorOfNewest(executions, 1)
    await store.close()
    const [from, to] = [join(folder, 'tranche.db'), join(folder, 'moved.db')].map((file) =>
      fileDatabase(file, () => T0),
    )
    if (!from || !to) throw new Error('two are there')
    const moving = { now: T0, replace: false, kind: 'move', seal: AUDIT, show: () => {} } as const
    await copyDatabase(from, to, moving)
    await from.unseal({ now: T0, audit: noted })
  })
})

// Unexpected query plans.

/** Tables that stay small: set up by an operator, stored for a while only, or a single row. */
const SMALL =
  'clock_disputes closed_months frozen last_results migrations minimum_ends partners polls price_imports ' +
  'reported_until sandboxes sqlite_schema tenants ticks tier_overrides tiers volatility webhook_deliveries ' +
  'webhook_events webhooks'

/** Indexes of the few rows that still need some work. */
const FEW = [
  'executions_open',
  'executions_stuck',
  'executions_unkept',
  'late_reports_undecided',
  'stops_under_way',
]

/** Statements that read a growing table from one end to the other, or would if they were asked to. */
const ALLOWED: { why: string; statement: RegExp; steps?: number }[] = [
  {
    why: 'the starts of all windows of a test environment, each plan once',
    statement: /^insert into used_before_reset/,
  },
  {
    why: 'the check looks at every row, each once',
    statement:
      /^select ('\w+ ' \|\| [\w.]+|t\.partner_slug \|\| ' ' \|\| t\.environment.*?) as place, (null|w\.window_start) as start/,
  },
  {
    why: 'a copy loads tenants into a database that has no executions yet',
    statement: /^insert into tenants \(.*\) select .* from \(select .* as tenant_id/,
  },
  {
    why: 'a copy carries and counts every row',
    statement: /^select (count\(\*\)|[\w, ]+) from \w+( order by [\w, ]+)?$/,
  },
  {
    why: 'it goes backwards along the key, as far as its limit',
    statement: /from \w+ order by \w+ desc limit/,
  },
  {
    why: 'a reset of a test environment has foreign keys switched off, so nobody looks for what refers to its rows',
    statement:
      /^delete from \w+ where (tenant_id = :tenant|(plan_id|user_id) in \(select .* tenant_id = :tenant\))$/,
    steps: 2,
  },
  {
    why: 'SQLite looks for what refers to a row that is added only while something dangles',
    statement: /^insert into \w+ \([\w, ]+\) values /,
    steps: 2,
  },
  {
    why: 'the log has a row for each command of an operator',
    statement: /from audit where action = 'key.rotate'/,
  },
  { why: 'an erased text may be in any row', statement: /^select 1 as one from users where email = :text/ },
  {
    why: 'a purchase that an operator books may be like any of its plan, whenever that was reported',
    statement: /^select x\.\* from \( select d\.execution_id, d\.partner_order_id, coalesce/,
  },
  {
    why: 'its index has the windows that are open, the next to end first',
    statement: /order by window_end limit/,
  },
]

const flat = (text: string): string => text.replace(/\s+/g, ' ').trim()

/** The steps of its plan, as SQLite words them. */
function planOf(db: Database, text: string): string[] {
  const names = [...text.matchAll(/:(\w+)/g)].map(([, name = '']) => [name, null] as const)
  const marks = Array(text.split('?').length - 1).fill(null)
  const explain = db.prepare<unknown[], { detail: string }>(`explain query plan ${plannedOnce(text)}`)
  return explain.all(...marks, Object.fromEntries(names)).map(({ detail }) => detail)
}

/** All executions that a plan or a tenant has ever had; along a covering index, a limit ends the scan. */
const ALL_EVER = ['executions_2 (plan_id=?)', 'USING INDEX executions_by_tenant (tenant_id=?)']

const TABLE =
  /(?:from|join|update|into|,)\s+(\w+)(?: (?:not indexed|indexed by \w+))?(?: as)?(?: (?!from\b|where\b)(\w+))?/g

/**
 * The steps that scan a growing table from end to end, that read all executions of a plan or a tenant, or that build an
 * index for one use.
 */
function costlySteps(text: string, plan: readonly string[], tables: ReadonlySet<string>): string[] {
  const called = new Map<string, string>()
  for (const [, table = '', name = table] of text.matchAll(TABLE))
    if (tables.has(table)) called.set(name, table).set(table, table)
  return plan.filter((step) => {
    if (step.includes('AUTOMATIC') || ALL_EVER.some((all) => step.endsWith(all))) return true
    const [, name = '', index = ''] = /^SCAN (\w+)(?: .*INDEX (\w+))?/.exec(step) ?? []
    const table = called.get(name)
    return table !== undefined && !SMALL.split(' ').includes(table) && !FEW.includes(index)
  })
}

/** The statements that read or change rows. */
const statements = (): string[] =>
  [...prepared].filter((text) => /^\s*(select|insert|update|delete|with)\b/.test(text))

// Possible contents of a file, and statistics that an `analyze` may have left there.

const CONTENTS: Record<string, (file: string) => Promise<void>> = {
  'an empty file': async () => {},
  'a small file': (file) => withYear(file, { plans: 2, days: 2 }),
  'a year of twenty plans': (file) => withYear(file, { plans: 20, days: 365 }),
}

async function withYear(file: string, { plans, days }: { plans: number; days: number }): Promise<void> {
  const store = await openStore(file, { clock: () => T0, create: false })
  const { acmeLive } = await populate(store)
  await store.close()
  fill(file, (db) => addYear(db, { tenantId: acmeLive.tenantId, plans, days, end: T0 }))
}

const STATISTICS: Record<string, (db: Database) => void> = {
  'without statistics': () => {},
  'with its own statistics': (db) => db.exec('analyze'),
  'with those of a day when every table had one row': (db) => claim(db, 1),
  'with those that make every index useless': (db) => claim(db, 1_000_000),
}

/** Claims so many rows for every table, and for every value of every index. */
function claim(db: Database, rows: number): void {
  db.exec('analyze; delete from sqlite_stat1')
  const put = db.prepare('insert into sqlite_stat1 (tbl, idx, stat) values (?, ?, ?)')
  for (const table of tablesOf(db)) {
    put.run(table, null, `${rows}`)
    for (const { name, n } of db
      .prepare<[string], { name: string; n: bigint }>(
        `select l.name, (select count(*) from pragma_index_info(l.name)) as n from pragma_index_list(?) l`,
      )
      .all(table))
      put.run(
        table,
        name,
        Array(Number(n) + 1)
          .fill(rows)
          .join(' '),
      )
  }
}

const tablesOf = (db: Database): string[] =>
  db
    .prepare<[], string>(
      "select name from sqlite_schema where type = 'table' and name not like 'sqlite_stat%'",
    )
    .pluck()
    .all()

async function opened(t: TestContext, file: string): Promise<Database> {
  const store = await openStore(file, { clock: () => T0, create: false })
  await store.close()
  const db = openFile(file)
  t.after(() => db.close())
  return db
}

test('every statement goes along keys and indexes, whatever is in the file and its statistics', async (t) => {
  const folder = temporaryFolder(t)
  const used = new Set<string>()
  let first: Map<string, string[]> | undefined
  for (const [what, put] of Object.entries(CONTENTS)) {
    const file = join(folder, `${what}.db`)
    await layFresh(file)
    await put(file)
    for (const [which, claims] of Object.entries(STATISTICS)) {
      const copy = join(folder, `${what} ${which}.db`)
      copyFileSync(file, copy)
      const before = openFile(copy)
      claims(before)
      before.close()
      const db = await opened(t, copy)
      const plans = new Map(statements().map((text) => [text, planOf(db, text)]))
      const tables = new Set(tablesOf(db))
      const costly = [...plans].flatMap(([text, plan]) => {
        const steps = costlySteps(text, plan, tables)
        const allowed = ALLOWED.find(({ statement }) => statement.test(flat(text)))
        if (steps.length > 0 && allowed) used.add(allowed.why)
        return steps.length > (allowed ? (allowed.steps ?? 1) : 0)
          ? [`${flat(text)}: ${steps.join('; ')}`]
          : []
      })
      assert.deepEqual(costly, [], `${what} ${which}`)
      first ??= plans
      for (const [text, plan] of plans)
        assert.deepEqual(plan, first.get(text), `${what} ${which}: ${flat(text)}`)
    }
  }
  assert.deepEqual(
    ALLOWED.map(({ why }) => why).filter((why) => !used.has(why)),
    [],
  )
})
