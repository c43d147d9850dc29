// The database of a test of the whole service: a file, or with TRANCHE_TEST_STORE=postgres (npm test -- --store
// postgres) one on a server of the test process.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { databaseOf } from '../../src/cli/context.ts'
import type { Instant } from '../../src/core/time.ts'
import type { Store } from '../../src/store/store.ts'
import { openFresh } from './fresh-database.ts'

/** Of a test process that keeps its databases on a server: that server. */
const server =
  process.env.TRANCHE_TEST_STORE === 'postgres' ? await import('./postgres-server.ts') : undefined
await server?.ourServer()

export const isOnServer = server !== undefined

/** What --db is to name for a database of this folder, of which nothing is there yet; the same for the same folder. */
export const addressIn = (folder: string): string =>
  server ? server.emptyDatabase(folder) : join(folder, 'tranche.db')

/** Opens a new database, at the schema of today. */
export const openNew = async (folder: string, clock: () => Instant): Promise<Store> =>
  server ? openAgain(await server.ownDatabase(folder), clock) : openFresh(addressIn(folder), clock)

/** Opens one that is there. */
export async function openAgain(address: string, clock: () => Instant): Promise<Store> {
  const database = await databaseOf(address, { clock })
  return database.open({ create: false })
}

/**
 * The setting by which a process finds the database of the folder it runs in; on a disk it finds the file by itself.
 */
export const settingIn = (folder: string): { TRANCHE_DB?: string } =>
  server && existsSync(folder) ? { TRANCHE_DB: addressIn(folder) } : {}
