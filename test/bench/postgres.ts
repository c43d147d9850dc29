// Rows measured on a server of PostgreSQL.

import pg from 'pg'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { ready, valuesOf } from '../../src/store/postgres/server/pipeline.ts'
import { query } from '../../src/store/statement.ts'
import { giveDigestsOn } from '../support/database.ts'
import { type Filling, type Hex, plansOf, tradesOf, usersOf, yearOf } from '../support/large-database.ts'
import { type Server, startServer } from '../support/postgres-server.ts'
import { type Backend, type Place, withKey } from './backend.ts'
import { startRaw } from './helper.ts'
import { percentile, type Stage } from './row.ts'

const MIB = 2 ** 20

const sha256 = (text: string): string => `encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`
const hex: Hex = (value, digits) => `lpad(to_hex(${value}), ${digits}, '0')`
const nameIn = (database: string): string => new URL(database).pathname.slice(1)
const asName = (name: string): string => name.replaceAll(/\W/g, '_')

/** Makes a database of that name anew, by itself or as a copy of another one. */
async function make(name: string, template = 'template1'): Promise<string> {
  const { ask, url } = await cluster()
  await ask(`drop database if exists ${name} with (force)`)
  await ask(`create database ${name} template ${template} strategy file_copy`)
  return url(name)
}

const empty: Backend['empty'] = async (stage, { name = 'tranche', environment = 'live' } = {}) => {
  const database = await make(asName(name))
  stage.after(() => drop(database))
  const store = await openStore(database, { clock: null, create: true })
  try {
    return { database, ...(await withKey(store, environment)) }
  } finally {
    await store.close()
  }
}

/** With its copies. */
async function drop(database: string): Promise<void> {
  const { ask } = await cluster()
  const name = nameIn(database)
  const made = await ask<{ datname: string }>(
    `select datname from pg_database where datname = '${name}' or datname like '${name}\\_of\\_%'`,
  )
  for (const { datname } of made) await ask(`drop database ${datname} with (force)`)
}

async function filled(
  stage: Stage,
  of: Parameters<Backend['empty']>[1],
  rows: (tenantId: number) => readonly Filling[],
): Promise<Place> {
  const place = await empty(stage, of)
  await withClient(place.database, async (ask) => {
    await ask('begin')
    for (const { text, params } of rows(place.tenantId)) await ask(text, params)
    await giveDigestsOn((text) => ask(text))
    // The rows brought their numbers with them.
    for (const [table, column] of NUMBERED)
      await ask(
        `select setval(pg_get_serial_sequence('${table}', '${column}'), coalesce(max(${column}), 0) + 1) from ${table}`,
      )
    await ask('commit')
    // What a server does in its own time to a table that has grown.
    await ask('vacuum analyze')
    await ask('checkpoint')
  })
  return place
}

const NUMBERED = [
  ['users', 'user_id'],
  ['plans', 'plan_id'],
  ['windows', 'window_id'],
] as const

export const onPostgres: Backend = {
  store: 'postgres',
  empty,
  ofUsers: (stage, { users, ...of }) => filled(stage, of, (tenantId) => usersOf({ tenantId, users })),
  ofPlans: (stage, { name, ...layout }) =>
    filled(stage, { name }, (tenantId) => plansOf({ ...layout, tenantId, now: machine.clock() }, hex)),
  ofYear: (stage, { name, ...year }) =>
    filled(stage, { name }, (tenantId) => yearOf({ ...year, tenantId }, { hex, sha256 })),
  ofTrades: (stage, { name, ...trades }) =>
    filled(stage, { name }, (tenantId) => tradesOf({ ...trades, tenantId }, hex)),

  copyOf: async (database, name) => make(`${nameIn(database)}_of_${asName(name)}`, nameIn(database)),

  sentIds: (database) =>
    withClient(database, async (ask) => {
      const rows = await ask(
        `select execution_id as id from executions where status = 'sent' order by execution_id`,
      )
      return (rows as { id: string }[]).map(({ id }) => id)
    }),

  takeBack: (database) =>
    withClient(database, async (ask) => {
      await ask(
        `update executions set status = 'pending', delivered_count = 0, lease_expires_at = null where status = 'sent'`,
      )
      // As autovacuum does every minute: ten turns in a second would leave it ten times the work.
      await ask('vacuum executions')
    }),

  raw: (stage) => startRaw(stage, 'postgres'),

  /** Asks afterwards: the server remembers when each transaction that added an execution was committed. */
  watchCommits: async (database) => {
    const gaps: number[] = []
    return {
      async end() {
        const rows = await withClient(database, (ask) =>
          ask(`select extract(epoch from at)::float8 * 1000 as at
            from (select distinct pg_xact_commit_timestamp(xmin) as at from executions) commits
            where at is not null order by at`),
        )
        const times = (rows as { at: number }[]).map(({ at }) => at)
        gaps.push(...times.slice(1).map((at, i) => at - (times[i] ?? 0)))
      },
      between: (share) => percentile(gaps, share),
    }
  },

  async sizeMib(database) {
    const [row] = await (await cluster()).ask<{ bytes: string }>(
      `select pg_database_size('${nameIn(database)}') as bytes`,
    )
    return Number(row?.bytes) / MIB
  },

  async walBytes() {
    const [row] = await (await cluster()).ask<{ bytes: string }>(
      `select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as bytes`,
    )
    return Number(row?.bytes)
  },
}

// The server that a run measures on: one cluster of Debian's packages on the disk of the temporary folder, over a
// socket, as durable as the product demands. It is gone with the process.

/** As docs/performance.md has them. */
const SETTINGS = {
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  shared_buffers: '1GB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  // Tells how long a pass goes between two commits.
  track_commit_timestamp: 'on',
}

let running: Promise<Server> | undefined

/** Started when it is first asked for. */
function cluster(): Promise<Server> {
  running ??= startServer(SETTINGS)
  return running
}

export async function versionOfServer(): Promise<string> {
  const [row] = await (await cluster()).ask<{ server_version: string }>('show server_version')
  return row?.server_version.split(' ')[0] ?? ''
}

/** A connection of its own for some work in SQL with named parameters, in the product's schema. */
async function withClient<T>(
  database: string,
  work: (ask: (text: string, params?: Record<string, unknown>) => Promise<object[]>) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({ connectionString: database })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('set search_path to tranche')
    return await work(async (source, params = {}) => {
      const asked = ready(query(source))
      return (await client.query(asked.text, valuesOf(asked, params))).rows
    })
  } finally {
    await client.end()
  }
}
