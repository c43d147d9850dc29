// The databases of the rows on a PostgreSQL server, which is started for the run.

import pg from 'pg'
import { openStore } from '../../src/store/postgres/open.ts'
import { ready, valuesOf } from '../../src/store/postgres/server/pipeline.ts'
import { query } from '../../src/store/statement.ts'
import type { Hex } from '../support/large-database.ts'
import { type Server, startServer } from '../support/postgres-server.ts'
import { type Backend, SENT, TAKE_BACK, withKey } from './backend.ts'

/** As durable as the product requires; docs/performance.md names the settings. */
const SETTINGS = {
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  shared_buffers: '1GB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
}

let running: Promise<Server> | undefined

/** A single cluster on the disk of the temporary folder, over a socket. It is gone with the process. */
function cluster(): Promise<Server> {
  running ??= startServer(SETTINGS)
  return running
}

const hex: Hex = (value, digits) => `lpad(to_hex(${value}), ${digits}, '0')`
const nameIn = (database: string): string => new URL(database).pathname.slice(1)
const asName = (name: string): string => name.replaceAll(/\W/g, '_')

/** Makes a new database of that name, empty or as a copy of another one. */
async function make(name: string, template = 'template1'): Promise<string> {
  const { ask, url } = await cluster()
  await ask(`drop database if exists ${name} with (force)`)
  await ask(`create database ${name} template ${template} strategy file_copy`)
  return url(name)
}

const NUMBERED = [
  ['users', 'user_id'],
  ['plans', 'plan_id'],
  ['windows', 'window_id'],
] as const

export const onPostgres: Backend = {
  store: 'postgres',

  async place(_stage, name, contents = () => []) {
    const database = await make(asName(name))
    const store = await openStore(database, { clock: null, create: true })
    const place = { database, ...(await withKey(store).finally(() => store.close())) }
    await withClient(database, async (client) => {
      await client.query('begin')
      for (const { text, params } of contents(place.tenantId, hex)) {
        const statement = ready(query(text))
        await client.query(statement.text, valuesOf(statement, params))
      }
      // The rows brought their numbers with them.
      for (const [table, column] of NUMBERED)
        await client.query(
          `select setval(pg_get_serial_sequence('${table}', '${column}'), coalesce(max(${column}), 0) + 1) from ${table}`,
        )
      await client.query('commit')
      // A server vacuums and analyzes a grown table by itself, later.
      await client.query('vacuum analyze')
      await client.query('checkpoint')
    })
    return place
  },

  copyOf: async (database, name) => make(`${nameIn(database)}_of_${asName(name)}`, nameIn(database)),

  sentIds: (database) =>
    withClient(database, async (client) => {
      const { rows } = await client.query<{ id: string }>(SENT)
      return rows.map(({ id }) => id)
    }),

  takeBack: (database) =>
    withClient(database, async (client) => {
      await client.query(TAKE_BACK)
      // As autovacuum does every minute: ten turns in a second would leave it ten times the work.
      await client.query('vacuum executions')
    }),
}

/** Runs some work on a connection of its own, in the product's schema. */
async function withClient<T>(database: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: database })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('set search_path to tranche')
    return await work(client)
  } finally {
    await client.end()
  }
}
