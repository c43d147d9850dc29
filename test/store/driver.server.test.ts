// The promises of a server to the transactions that both stores share.

import { test } from 'node:test'
import { createDriver } from '../../src/store/postgres/driver.ts'
import { connect } from '../../src/store/postgres/server/connection.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { type OpenBase, stepPromises } from './steps.ts'
import { T0 } from './world.ts'

const open: OpenBase = async (t) => {
  const url = await ownDatabase(temporaryFolder(t))
  const connection = connect(openPool(url), url, () => T0)
  t.after(() => connection.close())
  await connection.pool.query('create table kept (x bigint)')
  return createDriver(connection)
}

for (const [promise, prove] of Object.entries(stepPromises)) test(promise, (t) => prove(t, open))
