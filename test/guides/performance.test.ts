// docs/performance.md against the report that its figures come from.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { drawGrowth } from '../bench/chart.ts'
import { withFigures } from '../bench/page.ts'
import type { Report } from '../bench/report.ts'
import { hasFailed } from '../bench/row.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
const REPORT = JSON.parse(read('fixtures/bench/report.json')) as Report

test('the page has the figures of the report: npm run bench:page writes them', () => {
  const page = read('docs/performance.md')
  assert.equal(page, withFigures(page, REPORT))
})

test('so has its chart', () => {
  const growth = REPORT.rows.find(({ name }) => name === 'growth')
  assert.ok(growth && !hasFailed(growth))
  assert.equal(read('fixtures/bench/growth.svg'), drawGrowth(growth))
})

test('every row of the report could be measured, on a tree that was committed', () => {
  assert.deepEqual(REPORT.rows.filter(hasFailed), [])
  assert.match(REPORT.commit, /^[0-9a-f]+$/)
})
