// PostgreSQL for the contract of every store: each place is a database of its own.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { type Backend, populate, T0 } from './world.ts'

export const open: Backend['open'] = async (place, clock) => {
  // Other threads and processes find it by the file that the first has left.
  const note = join(place, 'address')
  if (!existsSync(note)) writeFileSync(note, await ownDatabase(place))
  return openStore(readFileSync(note, 'utf8'), { clock, create: false })
}

/** A store on a database of its own with two partners, and connections past it. */
export async function besideStore(t: TestContext) {
  const url = await ownDatabase(temporaryFolder(t))
  const { machine, setClock } = machineAt(T0)
  const connect = async (clock = machine.clock) => {
    const store = await openStore(url, { clock, create: false })
    t.after(() => store.close())
    return store
  }
  const pool = openPool(url, { max: 3 })
  /** Keeps what a statement locks, until it is released. */
  const hold = async (sql: string, values: unknown[] = []) => {
    const client = await pool.connect()
    await client.query('begin')
    await client.query(sql, values)
    let isHeld = true
    const release = async () => {
      if (!isHeld) return
      isHeld = false
      await client.query('commit')
      client.release()
    }
    t.after(release)
    return { client, release }
  }
  /** How many sessions wait for such a lock. */
  const waiting = async (where = 'true'): Promise<number> =>
    (await pool.query(`select from pg_locks where not granted and ${where}`)).rowCount ?? 0
  const store = await connect()
  // A connection that a failed test has not returned is not waited for.
  t.after(() => {
    pool.end()
  })
  return { url, machine, setClock, connect, store, pool, hold, waiting, ...(await populate(store)) }
}
