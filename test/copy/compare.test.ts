// Copies of files: how two databases are compared, and that a pass does not delay a copy.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { compareRows, monthsWithPartners } from '../../src/copy.ts'
import { periodOf } from '../../src/core/month.ts'
import { Problem } from '../../src/core/problem.ts'
import { machine } from '../../src/machine.ts'
import {
  type Block,
  lineOf,
  type Rows,
  rowsOf,
  type Value,
  withOurNumbers,
} from '../../src/store/copy-interface.ts'
import { holdFile } from '../../src/store/sqlite/copy-file.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { lockFile } from '../../src/store/sqlite/file/files.ts'
import { acquireLock } from '../../src/store/sqlite/file/locks.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { TABLES, type Table } from '../../src/store/tables.ts'
import { temporaryFolder } from '../support/database.ts'

const tableOf = (of: string): Table => TABLES.find(({ name }) => name === of) as Table
const prices = tableOf('prices')
const ROWS: Value[][] = [1n, 2n, 3n].map((at) => [at, at * 100n, 'hand'])

/** A side with these rows, in blocks of two. `counted` is the row count that it reports. */
const sideOf = (rows: readonly Value[][], counted = rows.length): Rows => ({
  count: async () => counted,
  async *blocks(table): AsyncGenerator<Block> {
    for (let from = 0; from < rows.length; from += 2) {
      const lines = rows.slice(from, from + 2).map((row) => `${lineOf(row, table)}\n`)
      yield { text: lines.join(''), rows: lines.length }
    }
  },
})

const compare = (source: Rows, target: Rows) => compareRows({ source, target }, [prices], () => {})
const differs = (error: unknown) =>
  error instanceof Problem &&
  error.code === 'storage_failed' &&
  /differs from its source in prices/.test(error.message)

suite('verification', () => {
  test('takes two sides that are the same', async () => {
    const [compared] = await compare(sideOf(ROWS), sideOf(ROWS))
    assert.deepEqual([compared?.name, compared?.rows], ['prices', 3])
    assert.match(compared?.sha256 ?? '', /^[0-9a-f]{64}$/)
  })

  const changed = ROWS.with(1, [2n, 201n, 'hand'])
  for (const [name, source, target] of [
    ['a row is missing', sideOf(ROWS), sideOf(ROWS.slice(0, 2))],
    ['a row that is there is read by neither side', sideOf(ROWS.slice(0, 2), 3), sideOf(ROWS.slice(0, 2))],
    ['a row is there twice', sideOf(ROWS), sideOf([...ROWS, ROWS[2] as Value[]])],
    ['a value is another one', sideOf(ROWS), sideOf(changed)],
    ['two rows have changed places', sideOf(ROWS), sideOf(ROWS.toReversed())],
    ['nothing is null where an empty text was', sideOf([[1n, 1n, '']]), sideOf([[1n, 1n, null]])],
    ['all is gone', sideOf(ROWS), sideOf([])],
  ] as [string, Rows, Rows][])
    test(`tells when ${name}`, () => assert.rejects(compare(source, target), differs))
})

test('exports are compared from the month of the first partner on', () => {
  const { start, end } = periodOf('2026-02')
  const months = ['0001-01', '2026-01', '2026-02', '2026-03']
  assert.deepEqual(monthsWithPartners(months, [{ createdAt: end }, { createdAt: start }]), months.slice(2))
  assert.deepEqual(monthsWithPartners(months, []), [])
})

test('a line gives back the row that it was made of, whatever is in it', () => {
  const volatility = tableOf('volatility')
  const again = (row: Value[], table: Table) =>
    rowsOf({ text: `${lineOf(row, table)}\n`, rows: 1 }, table).flatMap(Object.values)
  for (const text of [null, '', '\\N', 'N', '\\', '\\\\', 'a\tb\nc\rd\be\ff\vg', '\\t\\n', '𝄞 ☃'])
    assert.deepEqual(again([1n, 2n, text], prices), [1n, 2n, text])
  for (const real of [0, -0, 1e-7, 1e21, 0.1, 5e-324, 1.7976931348623157e308, Infinity]) {
    const row = [1n, real, -real, null, -(2n ** 63n)]
    assert.deepEqual(again(row, volatility), row)
  }
  assert.equal(withOurNumbers('1\t1e-07\t\\N\t5\t6\n', volatility), '1\t1e-7\t\\N\t5\t6\n')
})

// An endless pass delays a copy that freezes its source, and a migration: each reports it in its own words.

/** The reason why `work` gave up, while an endless pass has the file. */
async function refusalBesidePass(t: TestContext, file: string, work: () => Promise<unknown>): Promise<Error> {
  const endPass = acquireLock(lockFile(file, 'pass'))
  assert.ok(endPass)
  t.after(endPass)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let why: Error | undefined
  const noted = (error: Error): void => {
    why = error
  }
  work().then(() => noted(new Error('it did not wait')), noted)
  while (!why) {
    t.mock.timers.tick(1_000)
    await nextTurn()
  }
  return why
}

test('a copy that freezes its source says that it cannot, not that it migrates', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  await (await openStore(file, { clock: machine.clock, create: true })).close()
  const hold = () => holdFile(file, machine.clock, { fromWriters: true })
  const { message } = await refusalBesidePass(t, file, hold)
  assert.equal(message, 'The database is to be frozen, but a tick has been running on it for too long.')
})

test('a migration says that it has to migrate', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  const db = openFile(file)
  t.after(() => db.close())
  const { message } = await refusalBesidePass(t, file, () => migrate(db, file, machine.clock))
  assert.equal(message, 'The database has to be migrated, but a tick has been running on it for too long.')
})
