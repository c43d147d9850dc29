// Schema migrations: numbered files applied in order, each recorded with its hash, under a lock of their own.

import type { Pool, PoolClient } from 'pg'
import type { Frozen } from '../../../core/frozen.ts'
import type { Instant } from '../../../core/time.ts'
import { readMigrations } from '../../../resources.ts'
import { type FrozenRow, frozenOf, movedBeforeMigration, SELECT_FROZEN, SELECT_SEALED } from '../../frozen.ts'
import { type Applied, appliedIn, isPending, type MigrationState, statesOf } from '../../migrations.ts'
import { commitAlone } from './commit.ts'
import { LOCK } from './locks.ts'
import { SERVER_MS_SQL } from './pipeline.ts'
import { type Asked, firstColumn } from './session.ts'

/** The schema of our tables: the database may have other users too, and a copy replaces it as a whole. */
export const SCHEMA = 'tranche'

/** A migration of a large table takes longer than any other statement may. */
const NO_LIMIT = 'set local statement_timeout = 0; set local lock_timeout = 0'

/** Every migration this program knows, with when it was applied. Throws schema_newer. */
export const migrationStates = async (client: Asked): Promise<MigrationState[]> =>
  statesOf(readMigrations('postgres'), await readApplied(client))

export async function isThere(client: Asked, table: string): Promise<boolean> {
  const [isFound = false] = await firstColumn<boolean>(client, 'select to_regclass($1) is not null', [table])
  return isFound
}

/** Whether a schema is not one of ours: the one of that name, or else the one that the connection uses. */
export const isEmpty = async (client: Asked, schema?: string): Promise<boolean> =>
  !(await isThere(client, schema ? `${schema}.migrations` : 'migrations'))

/** The frozen state of a schema that is not open as a store, or was moved by an earlier version. Null if not ours. */
export async function frozenIn(client: Asked, schema?: string): Promise<Frozen | null> {
  const inSchema = schema === undefined ? '' : `${schema}.`
  for (const [table, select] of [['frozen', SELECT_FROZEN] as const, ['sealed', SELECT_SEALED] as const]) {
    if (!(await isThere(client, inSchema + table))) continue
    const { rows } = await client.query<FrozenRow>(
      select.replace(`from ${table}`, `from ${inSchema}${table}`),
    )
    return frozenOf(rows[0])
  }
  return null
}

/** A null `clock` takes the server's. */
export async function migrate(pool: Pool, clock: (() => Instant) | null): Promise<void> {
  if (!(await migrationStates(pool)).some(isPending)) return
  const client = await pool.connect()
  try {
    const { movedTo = null } = (await frozenIn(client)) ?? {}
    if (movedTo !== null) throw movedBeforeMigration(movedTo)
    await applyPending(client, clock?.() ?? (await serverTime(client)))
  } finally {
    // Its settings must not affect later work.
    client.release(true)
  }
}

export async function serverTime(client: Asked): Promise<Instant> {
  const [at] = await firstColumn<bigint>(client, `select ${SERVER_MS_SQL}`)
  return Number(at) as Instant
}

async function applyPending(client: PoolClient, now: Instant): Promise<void> {
  await client.query('begin')
  try {
    await client.query(NO_LIMIT)
    await client.query(`select pg_advisory_xact_lock(${LOCK.migrate}, 0)`)
    // Every write has either committed by now, or looks at the migrations after these (pipeline.ts).
    await client.query(`select pg_advisory_xact_lock(${LOCK.all}, 0)`)
    await bringUp(client, SCHEMA, now)
    await commitAlone(client)
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Applies missing migrations, inside a transaction of a connection that uses only `schema`. */
export async function bringUp(client: Asked, schema: string, now: Instant): Promise<void> {
  await client.query(`create schema if not exists ${schema}`)
  await client.query(MIGRATIONS_TABLE)
  // Read under the lock: another process may have been first.
  const applied = await readApplied(client)
  for (const { name, text, sha256 } of readMigrations('postgres')) {
    if (applied.has(name)) continue
    await client.query(text)
    const values = [name, sha256, now]
    await client.query('insert into migrations (name, sha256, applied_at) values ($1, $2, $3)', values)
  }
}

const MIGRATIONS_TABLE = `create table if not exists migrations
  (name text collate "C" primary key, sha256 text not null, applied_at bigint not null)`

async function readApplied(client: Asked): Promise<Map<string, Applied>> {
  if (await isEmpty(client)) return new Map()
  return appliedIn((await client.query('select name, sha256, applied_at from migrations')).rows)
}
