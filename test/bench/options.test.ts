// What `npm run bench` takes, and what it refuses.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { optionsOf } from './options.ts'

const NAMES = { file: ['me', 'pass', 'day'], postgres: ['me', 'pass'] }
const ALL = { store: 'file', quick: false, only: null, rounds: 5, json: null, check: null, record: null }

test('everything by default, and fewer rounds when it has to be quick', () => {
  assert.deepEqual(optionsOf([], NAMES), ALL)
  assert.deepEqual(optionsOf(['--quick'], NAMES), { ...ALL, quick: true, rounds: 3 })
  assert.equal(optionsOf(['--quick', '--rounds', '7'], NAMES).rounds, 7)
})

test('one row or several', () => {
  assert.deepEqual(optionsOf(['--only', 'me'], NAMES).only, ['me'])
  assert.deepEqual(optionsOf(['--only', 'me', 'pass'], NAMES).only, ['me', 'pass'])
  assert.deepEqual(optionsOf(['--only', 'me', '--only', 'pass'], NAMES).only, ['me', 'pass'])
})

test('a file or a server, each with its own rows', () => {
  assert.equal(optionsOf(['--store', 'postgres'], NAMES).store, 'postgres')
  assert.deepEqual(optionsOf(['--only', 'day'], NAMES).only, ['day'])
  const missing = ['--store', 'postgres', '--only', 'me', 'day']
  assert.throws(() => optionsOf(missing, NAMES), /no row 'day' on postgres: its rows are me, pass/)
})

test('files to write and to be held against', () => {
  const files = ['--json', 'a.json', '--check', 'b.json', '--record', 'c.json']
  assert.deepEqual(optionsOf(files, NAMES), { ...ALL, json: 'a.json', check: 'b.json', record: 'c.json' })
})

test('what cannot be meant is refused', () => {
  const refused = '--only nothing|--only|--store|--store redis|--rounds 0|--rounds x|--json|--check|--fast|me'
  for (const line of refused.split('|')) assert.throws(() => optionsOf(line.split(' '), NAMES), Error, line)
  assert.throws(() => optionsOf(['--json', ''], NAMES), /name of a file/)
})
