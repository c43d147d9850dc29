// The promises of a file to the transactions that both stores share, and its own statements compared with core.

import { join } from 'node:path'
import { test } from 'node:test'
import { cancelOpen } from '../../src/store/shared/ledger.ts'
import { createDriver } from '../../src/store/sqlite/driver.ts'
import { configure, connect, openFile, openInMemory } from '../../src/store/sqlite/file/connection.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { temporaryFolder } from '../support/database.ts'
import { type OpenBase, proveCancelling, stepPromises } from './steps.ts'
import { T0 } from './world.ts'

const open: OpenBase = async (t) => {
  const db = openInMemory()
  t.after(() => db.close())
  await migrate(db, null, () => T0)
  db.exec('create table kept (x integer) strict')
  return createDriver(connect(db, () => T0))
}

for (const [promise, prove] of Object.entries(stepPromises)) test(promise, (t) => prove(t, open))

// SQLite cancels a set of plans as core's rule says.

test('cancelling a set of plans is cancelling each of their open executions', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  const db = openFile(file)
  t.after(() => db.close())
  configure(db)
  await migrate(db, file, () => T0)
  db.pragma('synchronous = off')
  const clock = () => T0
  const { write } = createDriver(connect(db, clock))
  await proveCancelling({
    exec: async (sql) => db.exec(sql),
    all: async <Row>(sql: string) => db.prepare<[], Row>(sql).all(),
    cancelOpen: (planIds, now) => write((tx) => cancelOpen(tx, planIds, now)),
  })
})
