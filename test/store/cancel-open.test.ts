// SQLite cancels a set of plans as core's rule says.

import { join } from 'node:path'
import { test } from 'node:test'
import { configure, openFile } from '../../src/store/sqlite/file/connection.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { createCancelOpen } from '../../src/store/sqlite/plans.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { proveCancelling } from './cancel-open.ts'
import { T0 } from './world.ts'

test('cancelling a set of plans is cancelling each of their open executions', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  const db = openFile(file)
  t.after(() => db.close())
  configure(db)
  await migrate(db, file, () => T0)
  db.pragma('synchronous = off')
  const cancelOpen = createCancelOpen(db)
  await proveCancelling({
    exec: async (sql) => db.exec(sql),
    all: async <Row>(sql: string) => db.prepare<[], Row>(sql).all(),
    cancelOpen: async (planIds, now) => cancelOpen(planIds, now),
  })
})
