// The service as monitoring sees it.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createOps, type OpsOptions } from '../../src/http/ops/endpoints.ts'
import { createMetrics, EXPOSITION_TYPE } from '../../src/http/ops/metrics.ts'
import type { Store } from '../../src/store/store.ts'
import { readExposition, type Samples } from '../support/exposition.ts'
import { type Service, type ServiceOptions, startService } from '../support/service.ts'

export type Monitored = Service & { samples: () => Promise<Samples> }
type MonitorOptions = Partial<Pick<OpsOptions, 'token'>> & {
  watched?: (store: Store) => Store
}

/** The service with its metrics and what an operator asks it. */
export async function startMonitored(t: TestContext, options: MonitorOptions = {}): Promise<Monitored> {
  const metrics = createMetrics()
  const { watched = (store) => store, ...more } = options
  const parts: ServiceOptions['more'] = (store, { clock }) => {
    const fixed = { clock, metrics, exposition: EXPOSITION_TYPE, token: null }
    const ops = createOps({ ...fixed, ...more })
    ops.opened(watched(store))
    return { ops, store: metrics.counting(store) }
  }
  const service = await startService(t, { more: parts })
  return {
    ...service,
    async samples() {
      const headers = more.token ? { authorization: `Bearer ${more.token}` } : {}
      const answer = await fetch(`${service.opsUrl}/metrics`, { headers })
      assert.equal(answer.status, 200)
      return readExposition(await answer.text())
    },
  }
}
