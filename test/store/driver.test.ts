// The promises of a file to the transactions that both stores share.

import { test } from 'node:test'
import { createDriver } from '../../src/store/sqlite/driver.ts'
import { connect, openInMemory } from '../../src/store/sqlite/file/connection.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { type OpenBase, stepPromises } from './steps.ts'
import { T0 } from './world.ts'

const open: OpenBase = async (t) => {
  const db = openInMemory()
  t.after(() => db.close())
  await migrate(db, null, () => T0)
  db.exec('create table kept (x integer) strict')
  return createDriver(connect(db, () => T0))
}

for (const [promise, prove] of Object.entries(stepPromises)) test(promise, (t) => prove(t, open))
