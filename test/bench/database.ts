// The databases that rows are measured on: made by the program's own migrations, filled by SQL, and copied for every
// turn that uses one up.

import { copyFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment } from '../../src/core/partner.ts'
import { issueKey } from '../../src/http/issue-key.ts'
import { machine } from '../../src/machine.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { BESIDE, ownerNote, walBytes } from '../../src/store/sqlite/file/own-files.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { addPlans, fill, type Layout } from '../support/large-database.ts'
import { AUDIT } from '../support/service.ts'
import type { Stage } from './row.ts'

const MIB = 2 ** 20

export type Place = { file: string; tenantId: number; key: string }

/** A migrated database with the partner "acme" and a key of one of its environments. */
export async function emptyDatabase(
  { folder }: Pick<Stage, 'folder'>,
  { name = 'tranche.db', environment = 'live' as Environment } = {},
): Promise<Place> {
  const file = join(folder, name)
  const store = await openStore(file, { clock: machine.clock, create: true })
  try {
    await store.addPartner({ partnerSlug: 'acme', name: 'Acme' }, AUDIT)
    const tenant = await store.findTenant('acme', environment)
    if (!tenant) throw new Error(`there is no ${environment} environment`)
    const { record, secret } = issueKey({ tenant, label: null, lifetimeMs: null }, machine)
    await store.addKey(record, AUDIT)
    return { file, tenantId: tenant.tenantId, key: secret }
  } finally {
    store.close()
  }
}

/** The same with plans, whose windows began just now. */
export async function databaseOfPlans(
  stage: Pick<Stage, 'folder'>,
  { name, ...layout }: Omit<Layout, 'tenantId' | 'now'> & { name?: string },
): Promise<Place> {
  const place = await emptyDatabase(stage, name === undefined ? {} : { name })
  const { tenantId } = place
  fill(place.file, (db) => addPlans(db, { ...layout, tenantId, now: machine.clock() }))
  settle(place.file)
  return place
}

/** Leaves everything in the database file and no log beside it. */
export function settle(file: string): void {
  const db = openFile(file)
  db.pragma('wal_checkpoint(truncate)')
  db.close()
}

/** Puts a fresh copy of a settled database into the place of the last one. */
export function copyOf(file: string, name: string): string {
  const copy = join(file, '..', name)
  for (const old of [copy, ...BESIDE.map((suffix) => copy + suffix), ownerNote(copy)])
    rmSync(old, { force: true })
  copyFileSync(file, copy)
  return copy
}

/** The size of a database with its log. */
export function sizeMib(file: string): number {
  return (statSync(file).size + walBytes(file)) / MIB
}
