// Large files put in by SQL, in seconds. What is in the file is checked by its own keys and constraints.

import { type Database, openFile } from '../../src/store/sqlite/file/connection.ts'
import { giveDigests } from './digests.ts'
import { type Filling, type Hex, type Layout, plansOf, type Trades, tradesOf, usersOf } from './large-rows.ts'

const hex: Hex = (value, digits) => `printf('%0${digits}x', ${value})`

/** Fills a migrated database in one transaction that is not synced. Throws when a key or a constraint is broken. */
export function fill(file: string, work: (db: Database) => void): void {
  const db = openFile(file)
  try {
    db.pragma('synchronous = off')
    db.pragma('foreign_keys = on')
    db.transaction(() => {
      work(db)
      giveDigests(db)
    })()
  } finally {
    db.close()
  }
}

/** To a database that has none of them. */
export const addUsers = (db: Database, users: Pick<Layout, 'tenantId' | 'users'>): void =>
  add(db, usersOf(users))

export const addPlans = (db: Database, layout: Layout): void => add(db, plansOf(layout, hex))

export const addTrades = (db: Database, trades: Trades): void => add(db, tradesOf(trades, hex))

function add(db: Database, fillings: readonly Filling[]): void {
  for (const { text, params } of fillings) db.prepare(text).run(params)
}
