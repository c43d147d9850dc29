// What a disk does to a row: changed in the data itself, past the store and its digests.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import SQLite from 'better-sqlite3'
import pg from 'pg'

/** Runs a statement on the data of a place (sqlite.ts and postgres.ts), on a connection of its own. */
export async function damage(place: string, sql: string): Promise<void> {
  const note = join(place, 'address')
  await damageAt(existsSync(note) ? readFileSync(note, 'utf8') : join(place, 'tranche.db'), sql)
}

/** The same for what --db names. */
export async function damageAt(address: string, sql: string): Promise<void> {
  if (!address.startsWith('postgres')) {
    const db = new SQLite(address)
    db.exec(sql)
    db.close()
    return
  }
  const client = new pg.Client({ connectionString: address })
  await client.connect()
  await client.query(sql)
  await client.end()
}
