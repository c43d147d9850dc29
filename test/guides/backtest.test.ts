// What the guides say in words of the backtest, against its tables: the prices that these were made of are not here.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { FREQUENCIES } from '../../src/core/time.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8').replaceAll('\u2212', '-')
const joined = (text: string): string => text.replace(/\s+/g, ' ')

const PAGE = read('docs/backtest.md')
const BACKTEST = joined(PAGE)
const ENGINE = joined(read('docs/engine.md'))

/** The cells of the rows under a heading, by the titles of its table. */
function tableUnder(heading: string): Record<string, string>[] {
  const section = PAGE.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const [titles = [], , ...rows] = section
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) => line.split('|').map((cell) => cell.trim()))
  return rows.map((row) => Object.fromEntries(row.map((cell, i) => [titles[i], cell])))
}

const POLICY = tableUnder('The policy')
const FALLING = tableUnder('The falling year')

/** The least and the most of a column. */
function ends(rows: Record<string, string>[], title: string, places = 0): [least: string, most: string] {
  const values = rows.map((row) => Number.parseFloat(row[title] ?? ''))
  return [Math.min(...values).toFixed(places), Math.max(...values).toFixed(places)]
}

test('what is said in words follows from the tables', () => {
  assert.deepEqual([POLICY.length, FALLING.length], [9, 6])
  const all = [...POLICY, ...FALLING]
  const [wins, mean] = [ends(all, 'wins'), ends(all, 'mean bp (95 %)', 1)]
  const [worst, best] = ends(all, 'worst')
  const tail = ends(
    POLICY.filter(({ windows }) => windows === 'daily'),
    'p5',
  )
  const blocks = ends(POLICY.slice(0, 3), 'blocks')
  for (const said of [
    `${wins.join(' to ')} % of windows were cheaper than their TWAP, with means between ${mean.join(' and +')} bp and worst cases between ${best} and ${worst} bp`,
    `One daily window in twenty cost more than ${tail
      .map((bp) => bp.slice(1))
      .toReversed()
      .join(' to ')} bp above`,
    `Nine thousand overlapping windows are ${blocks.join(' to ')} blocks of the market`,
  ])
    assert.ok(BACKTEST.includes(said), said)
})

test('the guide to the timing has the same figures', () => {
  for (const row of POLICY) {
    const said = `${row['mean bp (95 %)']}, ${row.wins}, worst ${Number(row.worst).toFixed(0)}`
    assert.ok(ENGINE.includes(said), said)
  }
  assert.deepEqual(
    POLICY.map(({ windows }) => windows),
    [1, 2, 3].flatMap(() => [...FREQUENCIES]),
  )
})

test('as many years of prices are claimed as were measured', () => {
  const [, from = '', until = ''] = /hourly, (\w{3} \d{4}) to (\w{3} \d{4})/.exec(ENGINE) ?? []
  const months = monthsTo(until) + 1 - monthsTo(from)
  assert.equal(Math.floor(months / 12), 7)
  assert.match(ENGINE, /Over seven years of real Bitcoin prices/)
})

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')
const monthsTo = (name: string): number => Number(name.slice(4)) * 12 + MONTHS.indexOf(name.slice(0, 3))

test('no guide promises a price below the average in one place and none in another', () => {
  for (const file of globSync(['README.md', 'docs/*.md'], { cwd: ROOT }))
    assert.doesNotMatch(joined(read(file)), /slightly better|or better than/, file)
})

test('the guide says which of its figures the program prints, and which it does not', () => {
  assert.doesNotMatch(BACKTEST, /Every figure is output/)
  assert.match(BACKTEST, /These are not its output:/)
  for (const section of ['the-policy', 'compared-with-other-ways-of-buying', 'the-falling-year'])
    assert.ok(BACKTEST.split('These are not its output:')[0]?.includes(`(#${section})`), section)
})
