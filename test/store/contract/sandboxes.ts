// Advances of sandboxes exclude each other.

import assert from 'node:assert/strict'
import { HOUR_MS } from '../../../src/core/instant.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { advanceSandbox } from '../../../src/engine/sandbox.ts'
import { SANDBOX_OFFSET_MAX_MS } from '../../../src/store/sandboxes.ts'
import { AUDIT, type Contract, openWorld, problem } from '../world.ts'

export const sandboxContract: Contract = {
  'one advance at a time: the next one begins when the last has ended, or was refused': async (t, open) => {
    const { store, acme, acmeLive, bolt } = await openWorld(t, open)
    const begin = (tenant: Tenant, byMs = HOUR_MS) => store.beginAdvance(tenant, byMs, AUDIT)
    await assert.rejects(begin(acmeLive), problem('sandbox_refused'))
    await assert.rejects(begin(acme, SANDBOX_OFFSET_MAX_MS + 1), problem('sandbox_refused'))
    const { end } = await begin(acme)
    for (const tenant of [acme, bolt]) await assert.rejects(begin(tenant), problem('database_in_use'))
    end()
    end()
    const again = await begin(bolt)
    again.end()
  },

  'an advance lets the next one begin however it ends': async (t, open) => {
    const { store, machine, acme } = await openWorld(t, open)
    const options = { store, machine, tenant: acme, byMs: HOUR_MS, price: null, audit: AUDIT }
    const fall = () => {
      throw new Error('the screen is gone')
    }
    await assert.rejects(advanceSandbox({ ...options, onProgress: fall }), /the screen is gone/)
    const { after } = await advanceSandbox({ ...options, onProgress: () => {} })
    assert.equal(after.offsetMs, HOUR_MS)
  },
}
