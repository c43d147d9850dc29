// The contract of every store, kept by SQLite.

import { join } from 'node:path'
import { openFresh } from '../support/fresh-database.ts'
import { temporaryFolder } from '../support/service.ts'
import { storeContract } from './contract.ts'

storeContract('SQLite', async (t, clock) => {
  const store = await openFresh(join(temporaryFolder(t), 'tranche.db'), clock)
  t.after(() => store.close())
  return store
})
