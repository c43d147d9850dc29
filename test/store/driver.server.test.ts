// The promises of a server to the transactions that both stores share, and its own statements compared with core.

import { join } from 'node:path'
import { test } from 'node:test'
import type { QueryResult } from 'pg'
import { createDriver } from '../../src/store/postgres/driver.ts'
import { connect } from '../../src/store/postgres/server/connection.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { cancelOpen } from '../../src/store/shared/ledger.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { type OpenBase, proveCancelling, stepPromises } from './steps.ts'
import { T0 } from './world.ts'

const open: OpenBase = async (t) => {
  const url = await ownDatabase(temporaryFolder(t))
  const connection = connect(openPool(url), url, () => T0)
  t.after(() => connection.close())
  await connection.pool.query('create table kept (x bigint)')
  return createDriver(connection)
}

for (const [promise, prove] of Object.entries(stepPromises)) test(promise, (t) => prove(t, open))

// The effect of the PostgreSQL ledger's statements on rows, compared with core.

test('cancelling a set of plans is cancelling each of their open executions', async (t) => {
  const url = await ownDatabase(join(temporaryFolder(t), 'cancel-open'))
  const connection = connect(openPool(url), url, () => T0)
  t.after(() => connection.close())
  const ask = (sql: string): Promise<QueryResult> => connection.pool.query(sql)
  await proveCancelling({
    exec: ask,
    all: async <Row>(sql: string) => (await ask(sql)).rows as Row[],
    cancelOpen: (planIds, now) => createDriver(connection).write((tx) => cancelOpen(tx, planIds, now)),
  })
})
