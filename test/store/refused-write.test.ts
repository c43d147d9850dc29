// What a probe of the database knows of larger writes that the disk had no room for.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { Problem } from '../../src/core/problem.ts'
import { createDriver } from '../../src/store/sqlite/driver.ts'
import { connect, openFile } from '../../src/store/sqlite/file/connection.ts'
import { createMonitoringStore } from '../../src/store/sqlite/monitoring.ts'
import { createRefusedWrites } from '../../src/store/writes.ts'
import { openFresh, temporaryFolder } from '../support/database.ts'
import { T0 } from './world.ts'

test('a probe fails after a write that was too large for the disk, until one succeeds', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  await (await openFresh(file, () => T0)).close()
  const db = openFile(file)
  t.after(() => db.close())
  const connection = connect(db, () => T0)
  const { probeWrite } = createMonitoringStore(
    connection,
    createDriver(connection, { of: (_, real) => real }),
  )
  const add = (label: string) =>
    connection.write(() => db.prepare('insert into clock_disputes values (1, 0, 0, ?)').run(label))
  await probeWrite()
  const pages = Number(db.pragma('page_count', { simple: true }))
  db.pragma(`max_page_count = ${pages}`)
  const isFull = (error: unknown) => error instanceof Problem && /full/.test(error.message)
  await assert.rejects(add('x'.repeat(200_000)), isFull)
  await assert.rejects(probeWrite(), isFull)
  await assert.rejects(probeWrite(), isFull)
  await add('x')
  await probeWrite()
})

test('a refusal counts for a minute, and as long as there is next to no room', async () => {
  const world = { at: 0, isStillFull: false }
  const full = new Error('full')
  const refused = createRefusedWrites({
    isFull: (error) => error === full,
    isStillFull: () => world.isStillFull,
    elapsed: () => world.at,
  })
  const fail = (error: Error) => assert.rejects(refused.follow(Promise.reject(error)))
  await fail(new Error('another one'))
  refused.throwRecent()
  await fail(full)
  assert.throws(refused.throwRecent, full)
  world.at = 59_999
  assert.throws(refused.throwRecent, full)
  world.at = 60_000
  refused.throwRecent()
  await fail(full)
  world.isStillFull = true
  world.at = 10 * 60_000
  assert.equal(await refused.follow(Promise.resolve(1)), 1)
  assert.throws(refused.throwRecent, full)
  world.isStillFull = false
  await refused.follow(Promise.resolve(1))
  refused.throwRecent()
})
