// Rows measured on a file of SQLite.

import { copyFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { machine } from '../../../src/machine.ts'
import { type Database, openFile } from '../../../src/store/sqlite/file/connection.ts'
import { BESIDE, ownerNote, walBytes } from '../../../src/store/sqlite/file/files.ts'
import { openStore } from '../../../src/store/sqlite/open.ts'
import { addPlans, addTrades, addUsers, addYear, fill } from '../../support/large-database.ts'
import type { Backend, Place } from '../backend.ts'
import { withKey } from '../partner.ts'
import { startRaw } from '../raw.ts'
import type { Stage } from '../row.ts'
import { CommitWatch } from './commit-watch.ts'

const MIB = 2 ** 20

const empty: Backend['empty'] = async ({ folder }, { name = 'tranche', environment = 'live' } = {}) => {
  const database = join(folder, `${name}.db`)
  const store = await openStore(database, { clock: machine.clock, create: true })
  try {
    return { database, ...(await withKey(store, environment)) }
  } finally {
    store.close()
  }
}

async function filled(
  stage: Stage,
  of: Parameters<Backend['empty']>[1],
  add: (db: Database, tenantId: number) => void,
): Promise<Place> {
  const place = await empty(stage, of)
  fill(place.database, (db) => add(db, place.tenantId))
  settle(place.database)
  return place
}

/** Leaves everything in the database file and no log beside it. */
function settle(file: string): void {
  const db = openFile(file)
  db.pragma('wal_checkpoint(truncate)')
  db.close()
}

export const onFile: Backend = {
  store: 'file',
  empty,
  ofUsers: (stage, { users, ...of }) =>
    filled(stage, of, (db, tenantId) => addUsers(db, { tenantId, users })),
  ofPlans: (stage, { name, ...layout }) =>
    filled(stage, { name }, (db, tenantId) => addPlans(db, { ...layout, tenantId, now: machine.clock() })),
  ofTrades: (stage, { name, ...trades }) =>
    filled(stage, { name }, (db, tenantId) => addTrades(db, { ...trades, tenantId })),

  ofYear: (stage, { name, ...year }) =>
    filled(stage, { name }, (db, tenantId) => addYear(db, { ...year, tenantId })),

  async copyOf(file, name) {
    const copy = join(file, '..', `${name}.db`)
    for (const old of [copy, ...BESIDE.map((suffix) => copy + suffix), ownerNote(copy)])
      rmSync(old, { force: true })
    copyFileSync(file, copy)
    return copy
  },

  async sentIds(file) {
    const db = openFile(file)
    const sent = db
      .prepare<[], string>(`select execution_id from executions where status = 'sent' order by execution_id`)
      .pluck()
      .all()
    db.close()
    return sent
  },

  async takeBack(file) {
    const db = openFile(file)
    db.pragma('busy_timeout = 5000')
    db.prepare(
      `update executions set status = 'pending', delivered_count = 0, lease_expires_at = null where status = 'sent'`,
    ).run()
    db.close()
  },

  raw: (stage) => startRaw(stage, 'file'),
  watchCommits: async (file) => new CommitWatch(file),
  sizeMib: async (file) => (statSync(file).size + walBytes(file)) / MIB,
  walBytes: async () => Number.NaN,
}
