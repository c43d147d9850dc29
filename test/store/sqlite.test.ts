// The contract of every store, kept by SQLite: on a file and in memory.

import { join } from 'node:path'
import { openStore } from '../../src/store/sqlite/open.ts'
import { temporaryFolder } from '../support/service.ts'
import { storeContract } from './contract.ts'
import type { Open } from './world.ts'

const onDisk: Open = async (t, clock) => {
  const store = await openStore(join(temporaryFolder(t), 'tranche.db'), { clock, create: true })
  t.after(() => store.close())
  return store
}

const inMemory: Open = async (t, clock) => {
  const store = await openStore(':memory:', { clock, create: true })
  t.after(() => store.close())
  return store
}

storeContract('SQLite on a file', onDisk)
storeContract('SQLite in memory', inMemory)
