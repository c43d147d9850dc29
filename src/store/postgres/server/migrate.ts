// Schema migrations: numbered files applied in order, each recorded with its hash, under a lock of their own.

import type { Pool, PoolClient } from 'pg'
import type { Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { readMigrations } from '../../../resources.ts'
import { sealedBeforeMigration } from '../../copying/sealed.ts'
import type { MigrationState } from '../../migrations.ts'
import { sealOf } from '../copying/seal.ts'
import { LOCK } from './locks.ts'

/** The tables are in a schema of their own: the database may be somebody else's too, and a copy takes its place whole. */
export const SCHEMA = 'tranche'
/** A migration of a large table takes longer than any other statement may. */
const NO_LIMIT = 'set local statement_timeout = 0; set local lock_timeout = 0'

/** Every migration this program knows, with when it was applied. Throws schema_newer. */
export async function migrationStates(client: Pick<PoolClient, 'query'>): Promise<MigrationState[]> {
  const applied = await readApplied(client)
  const known = readMigrations('postgres')
  for (const [name, { sha256 }] of applied) {
    const mine = known.find((migration) => migration.name === name)
    if (!mine) throw newer(name)
    if (mine.sha256 !== sha256) throw new Error(`migration ${name} was applied with another content`)
  }
  return known.map(({ name, sha256 }) => ({ name, sha256, appliedAt: applied.get(name)?.appliedAt ?? null }))
}

/** Whether the schema that the connection looks into is none of ours. */
export async function isEmpty(client: Pick<PoolClient, 'query'>): Promise<boolean> {
  const { rows } = await client.query("select to_regclass('migrations') is null as none")
  return (rows[0] as { none: boolean }).none
}

/** Brings the schema up to this program's. Returns the names of the migrations it applied. */
export async function migrate(pool: Pool, now: Instant): Promise<string[]> {
  const client = await pool.connect()
  try {
    const isPending = async () => (await migrationStates(client)).some((state) => state.appliedAt === null)
    if (!(await isPending())) return []
    const seal = (await isEmpty(client)) ? null : await sealOf(client)
    if (seal) throw sealedBeforeMigration(seal)
    return await applyPending(client, now)
  } finally {
    // What it has set belongs to no later work.
    client.release(true)
  }
}

async function applyPending(client: PoolClient, now: Instant): Promise<string[]> {
  await client.query('begin')
  try {
    await client.query(NO_LIMIT)
    await client.query(`select pg_advisory_xact_lock(${LOCK.migrate}, 0)`)
    const done = await bringUp(client, SCHEMA, now)
    await client.query('commit')
    return done
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Applies what is missing, inside a transaction of a connection that looks into `schema` alone. */
export async function bringUp(
  client: Pick<PoolClient, 'query'>,
  schema: string,
  now: Instant,
): Promise<string[]> {
  const done: string[] = []
  await client.query(`create schema if not exists ${schema}`)
  await client.query(MIGRATIONS_TABLE)
  // Read under the lock: another process may have been first.
  const applied = await readApplied(client)
  for (const { name, text, sha256 } of readMigrations('postgres')) {
    if (applied.has(name)) continue
    await client.query(text)
    const values = [name, sha256, now]
    await client.query('insert into migrations (name, sha256, applied_at) values ($1, $2, $3)', values)
    done.push(name)
  }
  return done
}

const MIGRATIONS_TABLE = `create table if not exists migrations
  (name text collate "C" primary key, sha256 text not null, applied_at bigint not null)`

async function readApplied(
  client: Pick<PoolClient, 'query'>,
): Promise<Map<string, { sha256: string; appliedAt: Instant }>> {
  if (await isEmpty(client)) return new Map()
  const { rows } = await client.query('select name, sha256, applied_at from migrations order by name')
  return new Map(
    (rows as { name: string; sha256: string; applied_at: bigint }[]).map((row) => [
      row.name,
      { sha256: row.sha256, appliedAt: Number(row.applied_at) as Instant },
    ]),
  )
}

const newer = (name: string): Problem =>
  new Problem(
    'schema_newer',
    `The database has migration ${name}, which this version of tranche does not know: upgrade it.`,
  )
