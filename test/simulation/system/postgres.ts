// The store of the simulation on a PostgreSQL server.

import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { openStore } from '../../../src/store/postgres/open.ts'
import { LOCK } from '../../../src/store/postgres/server/locks.ts'
import { SCHEMA } from '../../../src/store/postgres/server/migrate.ts'
import { copyTemplate } from '../../support/postgres-server.ts'
import { CHANGES, COPIES, type Copy, MADE, NEW_EXECUTION_ID, sourceOf } from './record.ts'
import type { Access, Place } from './system.ts'

type OnServer = Omit<Extract<Place, { store: 'postgres' }>, 'store'>

/** Makes a database with nothing but the schema in it, and answers its address. */
export async function makeDatabase(server: string): Promise<{ url: string; remove: () => Promise<void> }> {
  const name = `life_${randomUUID().replaceAll('-', '')}`
  await connected(server, (client) => copyTemplate(name, (sql) => client.query(sql)))
  const url = new URL(server)
  url.pathname = `/${name}`
  // What a killed process has left of its sessions is in nobody's way.
  const remove = () => connected(server, (client) => client.query(`drop database ${name} with (force)`))
  return { url: url.href, remove: async () => void (await remove()) }
}

export const onPostgres = ({ server, url }: OnServer): Access => ({
  address: url,
  open: (clock) => openStore(url, { clock, create: false }),
  whileLocked: (work) =>
    connected(url, async (client) => {
      await client.query('begin')
      await client.query(`select pg_advisory_xact_lock(${LOCK.all}, 0)`)
      // Something is written, so that a connection that read before it has an old view of the data.
      await client.query('update partners set updated_at = updated_at + 1 - 1')
      let isDone = false
      const answer = work().finally(() => {
        isDone = true
      })
      // What is refused without a write waits for nobody.
      while (!isDone && (await client.query(WAITING)).rowCount === 0);
      await client.query('commit')
      return answer
    }),
  forbidden: () => connected(url, takenAgainstRules),
  settled: () =>
    connected(server, async (client) => {
      while ((await client.query(SESSIONS, [new URL(url).pathname.slice(1)])).rowCount !== 0);
    }),
})

const WAITING = 'select from pg_locks where not granted'
const SESSIONS = 'select from pg_stat_activity where datname = $1'

async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query(`set search_path to ${SCHEMA}`)
    return await work(client)
  } finally {
    await client.end()
  }
}

/** What breaks a rule and is taken by the database. Each is tried and taken back. */
async function takenAgainstRules(client: pg.Client): Promise<string[]> {
  const taken: string[] = []
  const attempts = [...CHANGES]
  for (const copy of COPIES) attempts.push({ what: copy.what, sql: await copyOf(client, copy) })
  for (const { what, sql } of attempts) if (await isTaken(client, sql)) taken.push(what)
  return taken
}

async function copyOf(client: pg.Client, { table, differs }: Copy): Promise<string> {
  const { rows } = await client.query<{ name: string }>(
    'select column_name as name from information_schema.columns where table_schema = $1 and table_name = $2',
    [SCHEMA, table],
  )
  // What the store makes itself has to be left out.
  const columns = rows.map(({ name }) => name).filter((name) => differs[name] !== MADE)
  const values = columns.map((name) => {
    const value = differs[name] ?? name
    return value === NEW_EXECUTION_ID ? "'exec_' || md5(random()::text)" : value
  })
  return `insert into ${table} (${columns}) select ${values.map(String)} ${sourceOf(table)}`
}

/** A statement that finds no row proves nothing, and is not taken. One that is wrong itself throws. */
async function isTaken(client: pg.Client, sql: string): Promise<boolean> {
  await client.query('begin')
  try {
    return ((await client.query(sql)).rowCount ?? 0) > 0
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code?.startsWith('23')) return false
    throw error
  } finally {
    await client.query('rollback')
  }
}
