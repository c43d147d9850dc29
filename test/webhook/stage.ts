// What the webhook suites stand on: the service, receivers with a test authority, and a way to run a pass and wake.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { ExecutionId } from '../../src/core/execution.ts'
import type { Environment, Tenant } from '../../src/core/partner.ts'
import { formatInstant } from '../../src/core/time.ts'
import type { Webhook } from '../../src/core/webhook.ts'
import type { Resolve } from '../../src/webhook/address-guard.ts'
import { createGuard, parseCidr } from '../../src/webhook/address-guard.ts'
import { createDeliver } from '../../src/webhook/deliver.ts'
import { type Deliver, wakePartners } from '../../src/webhook/wake-partners.ts'
import { PRICE, WEBHOOKS } from '../http/steps.ts'
import { type Authority, makeAuthority } from '../support/certificate.ts'
import { PLAN, type Service, startService, T0, USER } from '../support/service.ts'

export { LOW_PRICE, PRICE, WEBHOOKS } from '../http/steps.ts'

export const LOOPBACK = '127.0.0.0/8'

type DeliverParts = { allow?: string[]; resolve?: Resolve; headerPrefix?: string; caFile?: string | null }

/** A deliverer that may reach loopback, unless told otherwise. */
export function deliverer({
  allow = [LOOPBACK],
  resolve,
  headerPrefix = 'X-Service',
  caFile = null,
}: DeliverParts) {
  const guard = createGuard({ allow: allow.map(parseCidr), ...(resolve && { resolve }) })
  return createDeliver({ guard, headerPrefix, caFile })
}

export type Warning = { message: string; fields: object }

export type Stage = Service & {
  authority: Authority
  warnings: Warning[]
  /** Registers over HTTP and answers the secret. */
  register: (port: number, path?: string, key?: string) => Promise<string>
  /** Links a user and gives it a plan whose first unit fires at the next pass. */
  addPlan: (id: string, key?: string) => Promise<void>
  /** One pass, and the wake-ups it wrote. */
  pass: (priceUsd?: string, deliver?: Deliver) => Promise<{ sent: number; failed: number }>
  webhook: (slug?: string, environment?: Environment) => Promise<Webhook>
  tenant: (slug?: string, environment?: Environment) => Promise<Tenant>
}

export async function startStage(t: Pick<TestContext, 'after'>): Promise<Stage> {
  const authority = makeAuthority(t)
  const trusting = deliverer({ caFile: authority.caFile })
  const service = await startService(t, { more: () => ({ deliver: trusting }) })
  const warnings: Warning[] = []
  const succeed = async (method: string, path: string, body: unknown, key = service.key) => {
    const answer = await service.call(method, path, body, { key })
    assert.equal(answer.status, 200, `${method} ${path}: ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const tenant = async (slug = 'acme', environment: Environment = 'test'): Promise<Tenant> => {
    const found = await service.store.findTenant(slug, environment)
    assert.ok(found)
    return found
  }
  return {
    ...service,
    authority,
    warnings,
    tenant,
    register: async (port, path = '/hook', key) =>
      (await succeed('POST', WEBHOOKS, { url: `https://127.0.0.1:${port}${path}` }, key)).secret,
    addPlan: async (id, key) => {
      await succeed('POST', '/partner/v1/users', { ...USER, partner_user_id: id }, key)
      await succeed('POST', '/partner/v1/plans', { ...PLAN, partner_user_id: id, partner_plan_id: id }, key)
    },
    pass: async (priceUsd = PRICE, deliver = trusting) => {
      const report = await service.tick(priceUsd)
      const warn = (message: string, fields: object): void => void warnings.push({ message, fields })
      return wakePartners(report.whole ?? assert.fail('not over'), {
        store: service.store,
        deliver: async () => deliver,
        warn,
      })
    },
    webhook: async (slug, environment) => {
      const found = await service.store.findWebhook(await tenant(slug, environment))
      assert.ok(found)
      return found
    },
  }
}

export const EARLIEST = `exec_${'1'.repeat(32)}` as ExecutionId
export const SECRET = 'sse_whsec_dGhlIHNlY3JldCBvZiBhIHRlc3Q'

/** A delivery that needs no database: for what happens on the wire. */
export const deliveryTo = (url: string) => ({
  tenant: { tenantId: 1, partnerSlug: 'acme', environment: 'test' } as Tenant,
  count: 3,
  earliest: EARLIEST,
  webhook: {
    url,
    secret: SECRET,
    status: 'active',
    createdAt: T0,
    updatedAt: T0,
    lastDeliveredAt: null,
    lastStatusCode: null,
    consecutiveFailures: 0,
    lastFailure: null,
  } satisfies Webhook,
})

export const AT_T0 = formatInstant(T0)
