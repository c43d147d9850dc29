// Verification is what stands between a broken copy and the money: each way in which a copy may differ is told.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { compareRows, monthsWithPartners } from '../../src/copy.ts'
import { periodOf } from '../../src/core/month.ts'
import { Problem } from '../../src/core/problem.ts'
import type { Rows } from '../../src/store/copying.ts'
import { type Block, lineOf, rowsOf, type Value, withOurNumbers } from '../../src/store/copying.ts'
import { TABLES, type Table } from '../../src/store/tables.ts'

const tableOf = (of: string): Table => TABLES.find(({ name }) => name === of) as Table
const prices = tableOf('prices')
const ROWS: Value[][] = [1n, 2n, 3n].map((at) => [at, at * 100n, 'hand'])

/** A side with these rows, in blocks of two. `counted` is what it says that there are. */
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
    [
      'a row is missing that neither side reads, though it is there',
      sideOf(ROWS.slice(0, 2), 3),
      sideOf(ROWS.slice(0, 2)),
    ],
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
  for (const text of [null, '', '\\N', 'N', '\\', '\\\\', 'a\tb\nc\rd\be\ff\vg', '\\t\\n', '𝄞 ☃'])
    assert.deepEqual(rowsOf({ text: `${lineOf([1n, 2n, text], prices)}\n`, rows: 1 }, prices), [
      [1n, 2n, text],
    ])
  for (const real of [0, -0, 1e-7, 1e21, 0.1, 5e-324, 1.7976931348623157e308, Infinity]) {
    const row = [1n, real, -real, null, -(2n ** 63n)]
    assert.deepEqual(rowsOf({ text: `${lineOf(row, volatility)}\n`, rows: 1 }, volatility), [row])
  }
  assert.equal(withOurNumbers('1\t1e-07\t\\N\t5\t6\n', volatility), '1\t1e-7\t\\N\t5\t6\n')
})
