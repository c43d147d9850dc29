// The base of the sandbox tests: the service with a few environments, the sandbox's verbs, and all data of an
// environment, as text to compare.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { price } from '../../src/core/money.ts'
import type { Environment, Tenant } from '../../src/core/partner.ts'
import { type Advanced, advanceSandbox, fireInSandbox } from '../../src/engine/sandbox.ts'
import { machineAt } from '../../src/machine.ts'
import { tenantOf } from '../http/steps.ts'
import { type Rows, rowsOf } from '../support/database.ts'
import { AUDIT, type Service, startService } from '../support/service.ts'

export type Bench = Service & {
  tenant: (slug: string, environment: Environment) => Promise<Tenant>
  goAhead: (tenant: Tenant, byMs: number, priceUsd?: string) => Promise<Advanced>
  fire: (tenant: Tenant, planId: string) => ReturnType<typeof fireInSandbox>
  rows: Rows
}

export async function startBench(t: Pick<TestContext, 'after'>): Promise<Bench> {
  const service = await startService(t)
  const { store } = service
  const options = (tenant: Tenant, priceUsd?: string) => ({
    store,
    machine: { ...machineAt(service.now()).machine, clock: service.now },
    tenant,
    price: priceUsd === undefined ? null : price(priceUsd),
    audit: AUDIT,
  })
  return {
    ...service,
    tenant: (slug, environment) => tenantOf(service, environment, slug),
    goAhead: (tenant, byMs, priceUsd) =>
      advanceSandbox({ ...options(tenant, priceUsd), byMs, onProgress: () => {} }),
    fire: (tenant, planId) => fireInSandbox(planId, options(tenant)),
    rows: await rowsOf(t, service.file),
  }
}

/** Tables and their rows of a tenant. */
const OF_TENANT: Record<string, string> = {
  users: 'select * from users where tenant_id = ?',
  consents: 'select c.* from consents c join users using (user_id) where tenant_id = ?',
  plans: 'select * from plans where tenant_id = ?',
  windows: 'select w.* from windows w join plans using (plan_id) where tenant_id = ?',
  schedules: 'select s.* from schedules s join plans using (plan_id) where tenant_id = ?',
  executions: 'select * from executions where tenant_id = ? order by created_at, execution_id',
  trades: 'select * from trades where tenant_id = ? order by recorded_at, execution_id',
  late_reports: 'select * from late_reports where tenant_id = ?',
  webhooks: 'select * from webhooks where tenant_id = ?',
  // The last use of a key is recorded concurrently with the request, and may appear a moment later.
  api_keys: 'select key_id, key_sha256, expires_at, revoked_at from api_keys where tenant_id = ?',
  webhook_events: 'select * from webhook_events where tenant_id = ?',
}
const SHARED = ['prices', 'volatility', 'ticks', 'reported_until', 'closed_months', 'tiers', 'partners']

/** All data of the tenants, and the data shared by all. */
export async function everythingOf({ rows }: Bench, tenants: readonly Tenant[]): Promise<string> {
  const own = tenants.flatMap(({ tenantId }) =>
    Object.entries(OF_TENANT).map(async ([table, sql]) => [table, await rows(inOrder(sql), tenantId)]),
  )
  const shared = SHARED.map(async (table) => [table, await rows(inOrder(`select * from ${table}`))])
  return JSON.stringify(await Promise.all([...own, ...shared]))
}

const inOrder = (sql: string): string => (sql.includes('order by') ? sql : `${sql} order by 1, 2`)

/** Compares two long texts and shows only the place where they differ. */
export function assertSame(actual: string, expected: string, what: string): void {
  if (actual === expected) return
  let at = 0
  while (actual[at] === expected[at]) at += 1
  const near = (text: string) => text.slice(Math.max(0, at - 200), at + 100)
  assert.equal(near(actual), near(expected), what)
}
