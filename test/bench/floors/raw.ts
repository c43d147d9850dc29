// A process that does by hand what a transaction of ours has to write: prepared statements on the product's own schema,
// in better-sqlite3, as durable as ours. No rule is checked, nothing is read that need not be, and nobody is answered.

import SQLite from 'better-sqlite3'
import { configure } from '../../../src/store/sqlite/file/connection.ts'
import { serveJobs } from '../helper.ts'
import { rawConfirmations } from './raw-confirmations.ts'
import { rawPass } from './raw-pass.ts'
import { rawPlans } from './raw-plans.ts'
import { rawPolls } from './raw-polls.ts'
import { rawTrades } from './raw-trades.ts'

export type RawJob = {
  work: keyof typeof WORKS
  /** A migrated database that nobody else has open. */
  file: string
  /** How many transactions' worth of it: confirmations, plans, polls; of a pass, plans; of an export, trades. */
  count: number
  /** How many of them share a commit. */
  perCommit: number
}
export type RawDone = { ms: number; cpuMs: number }

/** Prepares a piece of work on an open database. What it returns does one item, by its number. */
export type RawWork = (db: SQLite.Database, count: number) => (i: number) => void

const WORKS = {
  confirmations: rawConfirmations,
  pass: rawPass,
  plans: rawPlans,
  polls: rawPolls,
  trades: rawTrades,
} satisfies Record<string, RawWork>

serveJobs(({ work, file, count, perCommit }: RawJob): RawDone => {
  const db = new SQLite(file)
  try {
    configure(db)
    const [begin, commit] = [db.prepare('begin immediate'), db.prepare('commit')]
    const one = WORKS[work](db, count)
    const before = process.cpuUsage()
    const begun = performance.now()
    for (let i = 0; i < count; ) {
      begin.run()
      for (const end = Math.min(count, i + perCommit); i < end; i++) one(i)
      commit.run()
    }
    const ms = performance.now() - begun
    const { user, system } = process.cpuUsage(before)
    return { ms, cpuMs: (user + system) / 1000 }
  } finally {
    db.close()
  }
})
