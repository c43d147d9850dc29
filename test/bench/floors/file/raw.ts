// A process that does by hand what a transaction of ours has to write: prepared statements on the product's own schema,
// in better-sqlite3, as durable as ours. No rule is checked, nothing is read that need not be, and nobody is answered.

import SQLite from 'better-sqlite3'
import { configure } from '../../../../src/store/sqlite/file/connection.ts'
import type { RawJob } from '../../backend.ts'
import { serveRaw } from '../serve-raw.ts'
import { rawConfirmations } from './confirmations.ts'
import { rawPass } from './pass.ts'
import { rawPlans } from './plans.ts'
import { rawPolls } from './polls.ts'
import { rawRows } from './rows.ts'
import { rawTrades } from './trades.ts'

/** Prepares a piece of work on an open database. What it returns does one item, by its number. */
export type RawWork = (db: SQLite.Database, count: number) => (i: number) => void

const WORKS = {
  confirmations: rawConfirmations,
  pass: rawPass,
  plans: rawPlans,
  polls: rawPolls,
  rows: rawRows,
  trades: rawTrades,
} satisfies Record<RawJob['work'], RawWork>

serveRaw(({ work, database, count, perCommit }) => {
  const db = new SQLite(database)
  configure(db)
  const [begin, commit] = [db.prepare('begin immediate'), db.prepare('commit')]
  const one = WORKS[work](db, count)
  return {
    run() {
      for (let i = 0; i < count; ) {
        begin.run()
        for (const end = Math.min(count, i + perCommit); i < end; i++) one(i)
        commit.run()
      }
    },
    close: () => void db.close(),
  }
})
