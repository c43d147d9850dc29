// Personal data are deleted when that user is erased: each text of a user's rows is marked as personal, or named here
// with the reason why it stays.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import SQLite from 'better-sqlite3'
import { erasureHash } from '../../src/store/erasures.ts'
import { TABLES } from '../../src/store/tables.ts'
import { open as openFile } from './sqlite.ts'
import { AUDIT, firstTranche, keyFor, noted, openWorld } from './world.ts'

const NAME = "the partner's own name for it, which the ledger stands on"
const WORD = 'one of a few words'
const MONEY = 'part of a recorded purchase, which never changes'

const STAYS: Readonly<Record<string, string>> = {
  'users.partner_user_id': NAME,
  'users.consent_version': 'evidence of a consent',
  'users.status': WORD,
  'consents.consent_version': 'evidence of a consent',
  'plans.partner_plan_id': NAME,
  'plans.frequency': WORD,
  'plans.status': WORD,
  'trades.execution_id': MONEY,
  'trades.partner_order_id': MONEY,
  'trades.status': MONEY,
  'trades.failure_reason': MONEY,
  'trades.digest': MONEY,
  'adjustments.execution_id': MONEY,
  'adjustments.reason': MONEY,
  'adjustments.digest': MONEY,
  'adjustments.partner_order_id': MONEY,
}

const OF_USERS = TABLES.filter(({ columns }) => columns.some(({ name }) => name === 'user_id'))

test("every text in a user's rows is personal, or is named here with the reason that it stays", () => {
  const texts = OF_USERS.flatMap(({ name, columns }) =>
    columns.flatMap((column) =>
      column.kind === 'text' && !column.isPersonal ? [`${name}.${column.name}`] : [],
    ),
  )
  assert.deepEqual(texts.sort(), Object.keys(STAYS).sort())
  const elsewhere = TABLES.filter(
    (table) => !OF_USERS.includes(table) && table.columns.some((c) => c.isPersonal),
  )
  assert.deepEqual(elsewhere, [], 'a personal column needs its user in the same row')
})

test('an erasure leaves nothing of a personal column, and what of it comes back is erased again', async (t) => {
  const world = await openWorld(t, openFile)
  const { store, acme, place } = world
  await store.addKey(keyFor(acme, { sha256: 'a'.repeat(64) }), AUDIT)
  await firstTranche(world)
  const db = new SQLite(join(place, 'tranche.db'))
  t.after(() => db.close())
  const personal = OF_USERS.flatMap(({ name, columns }) =>
    columns.filter(({ isPersonal }) => isPersonal).map((column) => [name, column.name] as const),
  )
  assert.ok(personal.length > 0)
  const fill = () => {
    for (const [table, column] of personal) db.exec(`update ${table} set ${column} = 'of a person'`)
  }
  const left = () =>
    personal.filter(([table, column]) =>
      db.prepare(`select 1 from ${table} where ${column} is not null`).get(),
    )
  fill()
  await store.eraseUser(acme, 'u1', AUDIT)
  assert.deepEqual(left(), [])
  const remembered = new Map([[erasureHash('a'.repeat(64), acme, 'u1'), world.now()]])
  // Each alone is reason enough to erase a user of a restored copy again.
  for (const [table, column] of personal) {
    db.exec(`update ${table} set ${column} = 'of a person'`)
    db.exec('update users set erased_at = null')
    assert.equal(await store.eraseAgain({ remembered, replaced: [] }, noted), 1, `${table}.${column}`)
    assert.deepEqual(left(), [], `${table}.${column}`)
  }
})
