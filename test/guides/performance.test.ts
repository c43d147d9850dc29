// docs/performance.md against the reports that its figures come from.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { drawGrowth, withFigures } from '../bench/page.ts'
import type { Report } from '../bench/report.ts'
import { hasFailed } from '../bench/row.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
const FILE = JSON.parse(read('fixtures/bench/report.json')) as Report
const POSTGRES = JSON.parse(read('fixtures/bench/postgres.json')) as Report

test('the page has the figures of the reports: npm run bench:page writes them', () => {
  const page = read('docs/performance.md')
  assert.equal(page, withFigures(page, { file: FILE, postgres: POSTGRES }))
})

test('so has its chart', () => {
  const growth = FILE.rows.find(({ name }) => name === 'growth')
  assert.ok(growth && !hasFailed(growth))
  assert.equal(read('fixtures/bench/growth.svg'), drawGrowth(growth))
})

test('every row of the reports could be measured, on a tree that was committed', () => {
  for (const { rows, commit } of [FILE, POSTGRES]) {
    assert.deepEqual(rows.filter(hasFailed), [])
    assert.match(commit, /^[0-9a-f]+$/)
  }
})
