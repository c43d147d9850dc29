// The service as monitoring sees it.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { HOUR_MS } from '../../src/core/time.ts'
import { createOps, type OpsOptions } from '../../src/http/ops/endpoints.ts'
import { createMetrics, EXPOSITION_TYPE } from '../../src/http/ops/metrics.ts'
import type { Store } from '../../src/store/store.ts'
import { readExposition, type Samples } from '../support/exposition.ts'
import { AUDIT, fill, type Service, type ServiceOptions, startService } from '../support/service.ts'
import { confirmPath, DUE, link, plan, succeed } from './steps.ts'

export type Monitored = Service & { samples: () => Promise<Samples> }
type MonitorOptions = Partial<Pick<OpsOptions, 'token'>> & {
  watched?: (store: Store) => Store
  /** False for a service whose database is still being opened. */
  isOpen?: boolean
}

/** The service with its metrics and its endpoints for operators. */
export async function startMonitored(t: TestContext, options: MonitorOptions = {}): Promise<Monitored> {
  const metrics = createMetrics()
  const { watched = (store) => store, isOpen = true, ...more } = options
  const parts: ServiceOptions['more'] = (store, { clock }) => {
    const fixed = { clock, metrics, exposition: EXPOSITION_TYPE, token: null }
    const ops = createOps({ ...fixed, ...more })
    if (isOpen) ops.opened(watched(store))
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

// A service with something to see for its operator, under hostile names.

export const HOSTILE = `<img src=x onerror=alert(1)>"'&\u202e</style></script><script>alert(2)</script>`

/** A service with a live partner that has bought and failed, under a hostile name; answers its key. */
export async function withBusiness(
  t: TestContext,
  token: string | null = null,
): Promise<Monitored & { live: string }> {
  const service = await startMonitored(t, { token })
  await service.store.addPartner({ partnerSlug: 'globex', name: HOSTILE }, AUDIT)
  const live = await service.issueKey('globex', 'live')
  const options = { key: live }
  await link(service, HOSTILE, options)
  for (const id of ['p1', HOSTILE]) await plan(service, HOSTILE, id, {}, options)
  for (const price of ['60000', '60100']) {
    service.advance(HOUR_MS)
    await service.tick(price)
  }
  const [bought, failed] = await succeed(service, 'GET', DUE, undefined, options)
  const refusal = { partner_order_id: 'o2', status: 'failed', failure_reason: HOSTILE }
  await succeed(service, 'POST', confirmPath(bought.execution_id), fill('=order', bought.amount_usd), options)
  await succeed(service, 'POST', confirmPath(failed.execution_id), refusal, options)
  return { ...service, live }
}
