// Opens a database on a server as a Store: creates its schema if asked to, migrates it, and puts its rooms together.

import { Problem } from '../../core/problem.ts'
import { type Instant, MINUTE_MS, plus } from '../../core/time.ts'
import { shownAddress } from '../address.ts'
import { createFreezeStore } from '../frozen.ts'
import { createOpsPageStore, createStatusStore } from '../health/ops-page.ts'
import type { MigrationState } from '../migrations.ts'
import {
  createKeyFinder,
  createKeyStore,
  createPartnerStore,
  createTierStore,
  createWebhookStore,
} from '../shared/accounts.ts'
import { createAuditStore, createResultStore } from '../shared/audit.ts'
import { createConfirmationStore } from '../shared/confirmations.ts'
import { createLevers, createListings, createTradeStore, type OwnListings } from '../shared/executions.ts'
import { createInvoiceStore } from '../shared/invoices.ts'
import { createMonthStore } from '../shared/months.ts'
import { createClockStore, createPassStore, createWakeUpStore } from '../shared/passes.ts'
import { createPlanReader, createPlanWriter, createWindowStore } from '../shared/plans.ts'
import { createPollStore, pollNotesOf } from '../shared/polls.ts'
import { createPriceStore } from '../shared/prices.ts'
import { createPurchaseStore } from '../shared/purchases.ts'
import { createSandboxStore } from '../shared/sandboxes.ts'
import { createUserStore } from '../shared/users.ts'
import { OF_TENANT } from '../sql/fragments.ts'
import { query } from '../statement.ts'
import type { Store } from '../store.ts'
import { waitAtClose } from '../writes.ts'
import { createFollowing, overwriteNothing, rememberOnServer } from './accounts.ts'
import { createDriver } from './driver.ts'
import { createCheckStore, createMonitoringStore, OPS_SQL } from './monitoring.ts'
import { createStaging, ownPasses, ownSandboxes } from './pass.ts'
import { type Connection, connect } from './server/connection.ts'
import { explaining } from './server/errors.ts'
import { stayInUse } from './server/locks.ts'
import { isEmpty, migrate, migrationStates } from './server/migrate.ts'
import { openPool, type Pool } from './server/pool.ts'
import { isFailoverTrusted, type Trust } from './server/timeline.ts'

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
} & Trust

/** Throws database_not_found, schema_newer, database_locked, storage_failed. */
export async function openStore(
  url: string,
  { clock, create, trustsFailover = isFailoverTrusted() }: OpenOptions,
): Promise<Store> {
  const pool = openPool(url)
  stayInUse(pool)
  const server = shownAddress(url)
  try {
    await explaining(server, async () => {
      if (!create) await refuseEmpty(pool, server)
      await migrate(pool, clock)
    })
    const connection = connect(pool, url, clock, { trustsFailover })
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
    `There is no tranche database at ${server}: name the right one in --db or TRANCHE_DB, or begin one there with \`partner create SLUG --name NAME\`.`,
  )
}

/** No write takes longer than this: nothing more is added among what was created before. */
const WRITE_MAX_MS = 5 * MINUTE_MS

const LISTINGS: OwnListings = {
  // Without the order and the offset, the planner may look for the least id in the whole table, and would read all of
  // it for each tenant that has none.
  earliest: query(
    `select min((select min(e.execution_id) from (
       select o.execution_id from executions o where o.tenant_id = t.tenant_id and o.created_at >= :since
       order by o.created_at, o.execution_id offset 0) e)) as first
     from tenants t where ${OF_TENANT}`,
  ),
  // A page is full, and older than every write that is under way: writes do not end in the order in which they read
  // the clock.
  isSettled({ executions, now }, limit) {
    const last = executions[limit - 1]
    return last !== undefined && last.createdAt < plus(now, -WRITE_MAX_MS)
  },
}

const NOTHING_REMEMBERED = { forget: () => {} }

function assemble(connection: Connection): Store {
  const driver = createDriver(connection)
  const polls = pollNotesOf(driver)
  return {
    // Written once for both stores.
    ...createPartnerStore(driver, { following: createFollowing(driver), ...NOTHING_REMEMBERED }),
    ...createKeyStore(driver, NOTHING_REMEMBERED),
    findKey: createKeyFinder(driver, null),
    ...createTierStore(driver),
    ...createInvoiceStore(driver),
    ...createUserStore(driver, { overwrite: overwriteNothing, remember: rememberOnServer }),
    ...createPlanReader(driver),
    ...createPlanWriter(driver),
    ...createPollStore(driver, polls),
    ...createConfirmationStore(driver),
    ...createListings(driver, LISTINGS),
    ...createWindowStore(driver),
    ...createLevers(driver),
    ...createTradeStore(driver),
    ...createWebhookStore(driver),
    ...createPurchaseStore(driver),
    ...createPassStore(driver, ownPasses(connection, driver)),
    ...createWakeUpStore(driver),
    ...createClockStore(driver),
    ...createPriceStore(driver, createStaging(connection)),
    ...createMonthStore(driver),
    ...createSandboxStore(driver, ownSandboxes(connection, driver)),
    ...createAuditStore(driver),
    ...createResultStore(driver),
    ...createStatusStore(driver),
    ...createFreezeStore(driver),
    ...createOpsPageStore(driver, OPS_SQL),
    // Written for a server alone.
    ...createMonitoringStore(connection, driver),
    ...createCheckStore(connection, driver),
    async close() {
      const marks = polls.flush()
      if (marks) await waitAtClose(marks)
      await connection.close()
    },
  }
}
