// Opens a database on a server as a Store: creates its schema if asked to, and migrates it.

import { Problem } from '../../core/problem.ts'
import { type Instant, MINUTE_MS, plus } from '../../core/time.ts'
import { shownAddress } from '../address.ts'
import { assemble } from '../assemble.ts'
import type { MigrationState } from '../migrations.ts'
import type { OwnListings } from '../shared/executions.ts'
import { OF_TENANT } from '../sql/fragments.ts'
import { query } from '../statement.ts'
import type { Store } from '../store.ts'
import { createFollowing, overwriteNothing, rememberOnServer } from './accounts.ts'
import { createDriver } from './driver.ts'
import { ownMonitoring } from './monitoring.ts'
import { ownImports, ownPasses, ownSandboxes } from './pass.ts'
import { type Connection, connect } from './server/connection.ts'
import { explaining } from './server/errors.ts'
import { stayInUse } from './server/locks.ts'
import { isEmpty, migrate, migrationStates } from './server/migrate.ts'
import { openPool, type Pool } from './server/pool.ts'
import { isFailoverTrusted, type Trust } from './server/timeline.ts'

/** Whether there is a database of ours. */
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
    return storeOn(connection)
  } catch (error) {
    await pool.end()
    throw error
  }
}

/** Opens a copy under construction, which already has the present schema. */
export function openMade(url: string, schema: string, clock: OpenOptions['clock']): Store {
  return storeOn(connect(openPool(url, { schema }), url, clock))
}

async function refuseEmpty(pool: Pool, server: string): Promise<void> {
  if (!(await isEmpty(pool))) return
  throw new Problem(
    'database_not_found',
    `There is no tranche database at ${server}: name the right one in --db or TRANCHE_DB, or begin one there with \`partner create SLUG --name NAME\`.`,
  )
}

/** No write takes longer than this. After that, no more executions with an earlier creation time appear. */
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
  // A page is full, and older than every write under way: writes do not end in the order of their times.
  isSettled({ executions, now }, limit) {
    const last = executions[limit - 1]
    return last !== undefined && last.createdAt < plus(now, -WRITE_MAX_MS)
  },
}

function storeOn(connection: Connection): Store {
  const driver = createDriver(connection)
  return assemble(driver, {
    following: createFollowing(driver),
    keysAtOnce: false,
    confirmsInGroups: true,
    erasing: { overwrite: overwriteNothing, remember: rememberOnServer },
    listings: LISTINGS,
    passes: ownPasses(connection, driver),
    imports: ownImports(connection, driver),
    sandboxes: ownSandboxes(connection, driver),
    monitoring: ownMonitoring(connection, driver),
    close: connection.close,
  })
}
