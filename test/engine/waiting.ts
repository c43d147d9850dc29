// A database with many plans that wait for a price or an hour that does not come, and its store.

import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Instant } from '../../src/core/time.ts'
import { type Machine, machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import { addPlans, fill } from '../support/large-database.ts'
import { AUDIT, T0 } from '../support/service.ts'

export type Waiting = { store: Store; machine: Machine; setClock: (now: Instant) => void; file: string }

/**
 * Each has one unit of its first slot out and waits for a price just under 50,000 USD, or for nine hours to go by
 * without one; prices and hours differ by up to 999 units and milliseconds.
 */
export async function manyWaiting(t: Pick<TestContext, 'after'>, plans: number): Promise<Waiting> {
  const file = join(temporaryFolder(t), 'tranche.db')
  const { machine, setClock } = machineAt(T0)
  const store = await openStore(file, { clock: machine.clock, create: true })
  t.after(() => store.close())
  await store.addPartner({ partnerSlug: 'acme', name: 'Acme' }, AUDIT)
  const tenant = await store.findTenant('acme', 'live')
  if (!tenant) throw new Error('a partner has a live environment')
  const { tenantId } = tenant
  fill(file, (db) => addPlans(db, { tenantId, users: 1, plans, now: T0, limits: 'in turns' }))
  return { store, machine, setClock, file }
}
