// The partner whose service is measured, and its side over HTTP: polls for everything that is due, one page after the
// other.

import type { Environment } from '../../src/core/partner.ts'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import type { Store } from '../../src/store/store.ts'
import { AUDIT } from '../support/service.ts'
import type { Place } from './backend.ts'
import type { Server } from './loading.ts'

/** Adds the partner "acme" to a store that is empty, with a key of one of its environments. */
export async function withKey(
  store: Pick<Store, 'addPartner' | 'addKey' | 'findTenant'>,
  environment: Environment,
): Promise<Omit<Place, 'database'>> {
  await store.addPartner({ partnerSlug: 'acme', name: 'Acme' }, AUDIT)
  const tenant = await store.findTenant('acme', environment)
  if (!tenant) throw new Error(`there is no ${environment} environment`)
  const { record, secret } = issueKey({ tenant, label: null, lifetimeMs: null }, machine)
  await store.addKey(record, AUDIT)
  return { tenantId: tenant.tenantId, key: secret }
}

export type Polled = { ids: string[]; timesMs: number[] }

/** Polls until nothing remains. Throws on any answer but 200. */
export async function pollAll({ url }: Pick<Server, 'url'>, key: string): Promise<Polled> {
  const polled: Polled = { ids: [], timesMs: [] }
  for (;;) {
    const begun = performance.now()
    const response = await fetch(`${url}/partner/v1/executions/due`, {
      headers: { authorization: `Bearer ${key}` },
    })
    const page = (await response.json()) as { execution_id: string }[]
    polled.timesMs.push(performance.now() - begun)
    if (response.status !== 200) throw new Error(JSON.stringify(page))
    for (const { execution_id } of page) polled.ids.push(execution_id)
    if (response.headers.get('x-due-remaining') === '0') return polled
  }
}
