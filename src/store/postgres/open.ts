// Opens a database on a server as a Store: creates its schema if asked to, migrates it, and puts its rooms together.

import { Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import { shownAddress } from '../address.ts'
import { createOpsPageStore, createStatusStore } from '../health/ops-page.ts'
import type { MigrationState } from '../migrations.ts'
import {
  createKeyStore,
  createPartnerStore,
  createTierStore,
  createWebhookStore,
} from '../shared/accounts.ts'
import { createAuditStore, createResultStore } from '../shared/audit.ts'
import { createLevers, createTradeStore } from '../shared/executions.ts'
import { createInvoiceStore } from '../shared/invoices.ts'
import { createMonthStore } from '../shared/months.ts'
import { createClockStore } from '../shared/passes.ts'
import { createPlanReader, createWindowStore } from '../shared/plans.ts'
import { createPriceStore } from '../shared/prices.ts'
import { createPurchaseStore } from '../shared/purchases.ts'
import { createSandboxStore } from '../shared/sandboxes.ts'
import { createUserStore } from '../shared/users.ts'
import type { Store } from '../store.ts'
import { waitAtClose } from '../writes.ts'
import { createFollowing, createKeyFinder, overwriteNothing, rememberOnServer } from './accounts.ts'
import { createDriver } from './driver.ts'
import { createExecutionStore, pollNotesOf } from './executions.ts'
import { createCheckStore, createMonitoringStore, createStandstillStore, OPS_SQL } from './monitoring.ts'
import { createPassStore, createStaging, createWakeUpStore, ownSandboxes } from './pass.ts'
import { createPlanWriter } from './plans.ts'
import { type Connection, connect } from './server/connection.ts'
import { explaining } from './server/errors.ts'
import { stayInUse } from './server/locks.ts'
import { isEmpty, migrate, migrationStates } from './server/migrate.ts'
import { openPool, type Pool } from './server/pool.ts'

/** Whether there is something of ours. */
export const isBegun = (url: string): Promise<boolean> => inspect(url, async (pool) => !(await isEmpty(pool)))

/** What `migrate --status` shows; changes nothing. */
export const readMigrationStates = (url: string): Promise<MigrationState[]> =>
  inspect(url, async (pool) => {
    await refuseEmpty(pool, shownAddress(url))
    return migrationStates(pool)
  })

async function inspect<T>(url: string, look: (pool: Pool) => Promise<T>): Promise<T> {
  const pool = openPool(url, { max: 1 })
  try {
    return await explaining(shownAddress(url), () => look(pool))
  } finally {
    await pool.end()
  }
}

type OpenOptions = {
  /** Null for the clock of the server, which all hosts share. */
  clock: (() => Instant) | null
  /** Makes the schema where there is none; otherwise that is database_not_found. */
  create: boolean
}

/** Throws database_not_found, schema_newer, database_locked, storage_failed. */
export async function openStore(url: string, { clock, create }: OpenOptions): Promise<Store> {
  const pool = openPool(url)
  stayInUse(pool)
  const server = shownAddress(url)
  try {
    await explaining(server, async () => {
      if (!create) await refuseEmpty(pool, server)
      await migrate(pool, clock)
    })
    const connection = connect(pool, url, clock)
    // This process writes only into the schema that it finds now, even if another one gets the name later.
    await connection.look(connection.schema.look)
    return assemble(connection)
  } catch (error) {
    await pool.end()
    throw error
  }
}

/** Opens a copy under construction, which already has the present schema. */
export function openMade(url: string, schema: string, clock: OpenOptions['clock']): Store {
  return assemble(connect(openPool(url, { schema }), url, clock))
}

async function refuseEmpty(pool: Pool, server: string): Promise<void> {
  if (!(await isEmpty(pool))) return
  throw new Problem(
    'database_not_found',
    `There is no tranche database at ${server}: name the right one in --db or TRANCHE_DB, or begin one with \`tranche partner create SLUG --name NAME\`.`,
  )
}

const NOTHING_REMEMBERED = { forget: () => {} }

function assemble(connection: Connection): Store {
  const polls = pollNotesOf(connection)
  const driver = createDriver(connection)
  return {
    // Written once for both stores.
    ...createPartnerStore(driver, { following: createFollowing(connection), ...NOTHING_REMEMBERED }),
    ...createKeyStore(driver, NOTHING_REMEMBERED),
    ...createTierStore(driver),
    ...createInvoiceStore(driver),
    ...createUserStore(driver, { overwrite: overwriteNothing, remember: rememberOnServer }),
    ...createPlanReader(driver),
    ...createWindowStore(driver),
    ...createLevers(driver),
    ...createTradeStore(driver),
    ...createWebhookStore(driver),
    ...createPurchaseStore(driver),
    ...createClockStore(driver),
    ...createPriceStore(driver, createStaging(connection)),
    ...createMonthStore(driver),
    ...createSandboxStore(driver, ownSandboxes(connection, driver)),
    ...createAuditStore(driver),
    ...createResultStore(driver),
    ...createStatusStore(driver),
    ...createOpsPageStore(driver, OPS_SQL),
    // Written for a server alone.
    findKey: createKeyFinder(connection),
    ...createPlanWriter(connection),
    ...createExecutionStore(connection, driver, polls),
    ...createPassStore(connection, driver),
    ...createWakeUpStore(connection),
    ...createMonitoringStore(connection, driver),
    ...createCheckStore(connection, driver),
    ...createStandstillStore(connection),
    async close() {
      const marks = polls.flush()
      if (marks) await waitAtClose(marks)
      await connection.close()
    },
  }
}
