// The server that a run measures on: one cluster of Debian's packages on the disk of the temporary folder, over a
// socket, as durable as the product demands. It is gone with the process.

import pg from 'pg'
import { ready, valuesOf } from '../../../src/store/postgres/server/pipeline.ts'
import { query } from '../../../src/store/statement.ts'
import { type Server, startServer } from '../../support/postgres-server.ts'

/** As docs/performance.md has them. */
export const SETTINGS = {
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
export function cluster(): Promise<Server> {
  running ??= startServer(SETTINGS)
  return running
}

export async function versionOfServer(): Promise<string> {
  const [row] = await (await cluster()).ask<{ server_version: string }>('show server_version')
  return row?.server_version.split(' ')[0] ?? ''
}

/** A connection of its own for some work in SQL with named parameters, in the product's schema. */
export async function withClient<T>(
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
