// A pass that goes on for too long holds up a copy that seals, and a migration: each of them says so of itself.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { machine } from '../../src/machine.ts'
import { holdFile } from '../../src/store/sqlite/copying.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { lockFile } from '../../src/store/sqlite/file/files.ts'
import { acquireLock } from '../../src/store/sqlite/file/locks.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { temporaryFolder } from '../support/database.ts'

/** Why `work` gave up, while a pass that never ends has the file. */
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

test('a copy that seals says that it cannot seal, not that it migrates', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  await (await openStore(file, { clock: machine.clock, create: true })).close()
  const hold = () => holdFile(file, machine.clock, { fromWriters: true })
  const { message } = await refusalBesidePass(t, file, hold)
  assert.equal(message, 'The database is to be sealed, but a tick has been running on it for too long.')
})

test('a migration says that it has to migrate', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  const db = openFile(file)
  t.after(() => db.close())
  const { message } = await refusalBesidePass(t, file, () => migrate(db, file, machine.clock))
  assert.equal(message, 'The database has to be migrated, but a tick has been running on it for too long.')
})
