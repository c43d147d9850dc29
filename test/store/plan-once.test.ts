// SQL as it is handed to SQLite: parameters hidden from its planner, everything else untouched.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openFile, plannedOnce } from '../../src/store/sqlite/file/connection.ts'

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

for (const [what, [sql, planned]] of Object.entries(CASES)) {
  test(`parameters are behind a plus: ${what}`, () => assert.equal(plannedOnce(sql), planned))
}

test('a value goes through as it is', () => {
  const db = openFile(':memory:')
  const values = [7n, 2n ** 63n - 1n, 1.5, 'text', 'x:y?', null, Buffer.from('bytes')]
  const types = db.prepare(`select ${values.map(() => 'typeof(?)').join()}`).raw()
  assert.deepEqual(types.get(values), ['integer', 'integer', 'real', 'text', 'text', 'null', 'blob'])
  assert.deepEqual(
    db
      .prepare(`select ${values.map(() => '?').join()}`)
      .raw()
      .get(values),
    values,
  )
  db.close()
})
