// The stores of the rows' databases: a file, or a server. Each makes databases with the program's own migrations, fills
// them by SQL, and copies them for every turn that uses one up.

import { copyFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { BESIDE, ownerNote } from '../../src/store/sqlite/file/files.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import {
  addAll,
  type Filling,
  fill,
  type Hex,
  hexInSqlite,
  type Layout,
  plansOf,
} from '../support/large-database.ts'
import { AUDIT } from '../support/service.ts'
import type { Stage } from './row.ts'

export type StoreName = 'file' | 'postgres'

/** `database` is the value of --db. */
export type Place = { database: string; tenantId: number; key: string }
type Contents = (tenantId: number, hex: Hex) => Filling[]

export type Backend = {
  store: StoreName
  /** A migrated database with the partner "acme", a live key and these rows. */
  place: (stage: Stage, name: string, contents?: Contents) => Promise<Place>
  /** Replaces the last database of that name by a fresh copy of a database that nobody uses. */
  copyOf: (database: string, name: string) => Promise<string>
  /** The ids of the open executions, in their order. */
  sentIds: (database: string) => Promise<string[]>
  /** Undoes the leases of polls. */
  takeBack: (database: string) => Promise<void>
}

/** Plans of a thousand users, whose windows began just now. */
export const plansWith =
  (layout: Omit<Layout, 'tenantId' | 'users' | 'now'>): Contents =>
  (tenantId, hex) =>
    plansOf({ ...layout, users: 1_000, tenantId, now: machine.clock() }, hex)

/** Adds the partner "acme" to a store that is empty, with a live key. */
export async function withKey(
  store: Pick<Store, 'addPartner' | 'addKey' | 'findTenant'>,
): Promise<Omit<Place, 'database'>> {
  await store.addPartner({ partnerSlug: 'acme', name: 'Acme' }, AUDIT)
  const tenant = await store.findTenant('acme', 'live')
  if (!tenant) throw new Error('there is no live environment')
  const { record, secret } = issueKey({ tenant, label: null, lifetimeMs: null }, machine)
  await store.addKey(record, AUDIT)
  return { tenantId: tenant.tenantId, key: secret }
}

export const SENT = `select execution_id as id from executions where status = 'sent' order by execution_id`
export const TAKE_BACK = `update executions set status = 'pending', delivered_count = 0, lease_expires_at = null
  where status = 'sent'`

export const onFile: Backend = {
  store: 'file',

  async place({ folder }, name, contents) {
    const database = join(folder, `${name}.db`)
    const store = await openStore(database, { clock: machine.clock, create: true })
    const place = { database, ...(await withKey(store).finally(() => store.close())) }
    if (contents) fill(database, (db) => addAll(db, contents(place.tenantId, hexInSqlite)))
    // Everything has to be in the file, without a log beside it.
    const db = openFile(database)
    db.pragma('wal_checkpoint(truncate)')
    db.close()
    return place
  },

  async copyOf(file, name) {
    const copy = join(file, '..', `${name}.db`)
    for (const old of [copy, ...BESIDE.map((suffix) => copy + suffix), ownerNote(copy)])
      rmSync(old, { force: true })
    copyFileSync(file, copy)
    return copy
  },

  async sentIds(file) {
    const db = openFile(file)
    const sent = db.prepare<[], string>(SENT).pluck().all()
    db.close()
    return sent
  },

  async takeBack(file) {
    const db = openFile(file)
    db.pragma('busy_timeout = 5000')
    db.prepare(TAKE_BACK).run()
    db.close()
  },
}
