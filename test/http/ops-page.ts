// A service with something to see for its operator, under names that nobody would wish for.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { HOUR_MS } from '../../src/core/time.ts'
import { AUDIT, fill, PLAN, USER } from '../support/service.ts'
import { type Monitored, startMonitored } from './monitored.ts'

export const HOSTILE = `<img src=x onerror=alert(1)>"'&\u202e</style></script><script>alert(2)</script>`

/** A service with a live partner that has bought and failed, under a hostile name; answers its key. */
export async function withBusiness(
  t: TestContext,
  token: string | null = null,
): Promise<Monitored & { live: string }> {
  const service = await startMonitored(t, { token })
  await service.store.addPartner({ partnerSlug: 'globex', name: HOSTILE }, AUDIT)
  const live = await service.issueKey('globex', 'live')
  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await service.call(method, `/partner/v1${path}`, body, { key: live })
    assert.equal(answer.status, 200, JSON.stringify(answer.body))
    return answer.body
  }
  await call('POST', '/users', { ...USER, partner_user_id: HOSTILE })
  for (const partner_plan_id of ['p1', HOSTILE])
    await call('POST', '/plans', { ...PLAN, partner_user_id: HOSTILE, partner_plan_id })
  for (const price of ['60000', '60100']) {
    service.advance(HOUR_MS)
    await service.tick(price)
  }
  const [bought, failed] = await call('GET', '/executions/due')
  await call('POST', `/executions/${bought.execution_id}/confirm`, fill('=order', bought.amount_usd))
  const refusal = { partner_order_id: 'o2', status: 'failed', failure_reason: HOSTILE }
  await call('POST', `/executions/${failed.execution_id}/confirm`, refusal)
  return { ...service, live }
}
