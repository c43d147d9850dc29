// What the sandbox tests stand on: the service with a few environments in it, the sandbox's verbs, and everything an
// environment has, as text to compare.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import Database from 'better-sqlite3'
import { price } from '../../src/core/money.ts'
import type { Environment, Tenant } from '../../src/core/partner.ts'
import { type Advanced, advanceSandbox, fireInSandbox } from '../../src/engine/sandbox.ts'
import { machineAt } from '../../src/machine.ts'
import { AUDIT, type Service, startService } from '../support/service.ts'

export type Bench = Service & {
  tenant: (slug: string, environment: Environment) => Promise<Tenant>
  goAhead: (tenant: Tenant, byMs: number, priceUsd?: string) => Promise<Advanced>
  fire: (tenant: Tenant, planId: string) => ReturnType<typeof fireInSandbox>
  /** Reads the file as somebody with a shell would. */
  rows: (sql: string, ...params: unknown[]) => Record<string, unknown>[]
}

export async function startBench(t: Pick<TestContext, 'after'>): Promise<Bench> {
  const service = await startService(t)
  const { store } = service
  const db = new Database(service.file, { readonly: true })
  t.after(() => db.close())
  const options = (tenant: Tenant, priceUsd?: string) => ({
    store,
    machine: { ...machineAt(service.now()).machine, clock: service.now },
    tenant,
    price: priceUsd === undefined ? null : price(priceUsd),
    audit: AUDIT,
  })
  return {
    ...service,
    tenant: async (slug, environment) => {
      const found = await store.findTenant(slug, environment)
      assert.ok(found)
      return found
    },
    goAhead: (tenant, byMs, priceUsd) =>
      advanceSandbox({ ...options(tenant, priceUsd), byMs, onProgress: () => {} }),
    fire: (tenant, planId) => fireInSandbox(planId, options(tenant)),
    rows: (sql, ...params) => db.prepare(sql).all(...params) as Record<string, unknown>[],
  }
}

/** Tables and what of them belongs to a tenant. Ids made by chance or by counting are left out of `comparable`. */
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
  // When a key was last used is noted beside the request, and may come a moment later.
  api_keys: 'select key_id, key_sha256, expires_at, revoked_at from api_keys where tenant_id = ?',
  webhook_events: 'select * from webhook_events where tenant_id = ?',
}
const SHARED = ['prices', 'volatility', 'ticks', 'reported_until', 'closed_months', 'tiers', 'partners']
const IDS = /"(?:execution_id|partner_order_id|digest|\w*_id|key_sha256|prefix|last_four)":("[^"]*"|\d+),?/g

/** Every byte that tenants have, and what is shared by all. */
export function everythingOf({ rows }: Bench, tenants: readonly Tenant[]): string {
  const own = tenants.flatMap(({ tenantId }) =>
    Object.entries(OF_TENANT).map(([table, sql]) => [table, rows(sql, tenantId)]),
  )
  return JSON.stringify([...own, ...SHARED.map((table) => [table, rows(`select * from ${table}`)])])
}

/** The same without the ids, which chance makes and which count over all tenants. */
export const comparable = (bench: Bench, tenants: readonly Tenant[]): string =>
  everythingOf(bench, tenants).replaceAll(IDS, '')

/** Compares two long texts and shows no more than where they part. */
export function assertSame(actual: string, expected: string, what: string): void {
  if (actual === expected) return
  let at = 0
  while (actual[at] === expected[at]) at += 1
  const near = (text: string) => text.slice(Math.max(0, at - 200), at + 100)
  assert.equal(near(actual), near(expected), what)
}
