// The steps that most HTTP tests begin with: a linked user, its plans, tranches fired and fetched.

import assert from 'node:assert/strict'
import type { Execution } from '../../src/core/execution.ts'
import { revoke } from '../../src/core/key.ts'
import { formatUsd } from '../../src/core/money.ts'
import type { Environment, Tenant } from '../../src/core/partner.ts'
import type { Window } from '../../src/core/window.ts'
import { keyHash } from '../../src/keys.ts'
import { allExecutions } from '../store/world.ts'
import { AUDIT, type CallOptions, PLAN, type Service, USER } from '../support/service.ts'

export const USERS = '/partner/v1/users'
export const PLANS = '/partner/v1/plans'
export const DUE = '/partner/v1/executions/due'
export const EXECUTIONS = '/partner/v1/executions'
export const TRADES = '/partner/v1/trades'
export const WEBHOOKS = '/partner/v1/webhooks'
export const confirmPath = (id: string): string => `/partner/v1/executions/${encodeURIComponent(id)}/confirm`
export const planPath = (id: string): string => `${PLANS}/${encodeURIComponent(id)}`
export const userPath = (id: string): string => `${USERS}/${encodeURIComponent(id)}`

/** The price of the first pass; a new plan fires its first unit at it. */
export const PRICE = '60000'
/** Far below every reservation price, so that the second unit of a slot fires too. */
export const LOW_PRICE = '30000'

/** The members of a JSON object that a test sends or reads. */
export type Json = Record<string, unknown>

export async function succeed(
  service: Service,
  method: string,
  path: string,
  body?: unknown,
  options?: CallOptions,
) {
  const answer = await service.call(method, path, body, options)
  assert.equal(answer.status, 200, `${method} ${path}: ${JSON.stringify(answer.body)}`)
  return answer.body
}

export const link = (service: Service, id: string, options?: CallOptions) =>
  succeed(service, 'POST', USERS, { ...USER, partner_user_id: id }, options)

export const plan = (service: Service, user: string, id: string, more: Json = {}, options?: CallOptions) =>
  succeed(service, 'POST', PLANS, { ...PLAN, partner_user_id: user, partner_plan_id: id, ...more }, options)

export const setUser = (service: Service, id: string, status: string) =>
  succeed(service, 'PATCH', userPath(id), { status })

/** Polls, and returns the delivered executions by plan. */
export async function poll(service: Service, options?: CallOptions): Promise<Map<string, Json[]>> {
  const due: Json[] = await succeed(service, 'GET', DUE, undefined, options)
  return Map.groupBy(due, (execution) => String(execution.partner_plan_id))
}

/** Links a user of the plan's name for each plan, and fires and fetches the first tranche of all: 10.00 of 60.00. */
export async function sendFirst(service: Service, plans: readonly string[]): Promise<Map<string, string>> {
  for (const id of plans) {
    await link(service, id)
    await plan(service, id, id)
  }
  await service.tick(PRICE)
  const due = await poll(service)
  return new Map([...due].map(([id, executions]) => [id, String(executions[0]?.execution_id)]))
}

export async function windowsOf(service: Service, planId: string): Promise<Window[]> {
  return (await service.store.findPlans(planId)).flatMap((row) => row.windows)
}

export const executionsOf = async ({ store }: Service, planId: string): Promise<Execution[]> =>
  (await allExecutions(store)).filter((execution) => execution.partnerPlanId === planId)

export async function tenantOf(
  { store }: Pick<Service, 'store'>,
  environment: Environment = 'test',
  slug = 'acme',
): Promise<Tenant> {
  const tenant = await store.findTenant(slug, environment)
  assert.ok(tenant)
  return tenant
}

/** Revokes a key as an operator does; answers its id. */
export async function revokeKey({ store }: Pick<Service, 'store'>, secret: string): Promise<string> {
  const keyId = (await store.findKey(keyHash(secret)))?.key.keyId ?? ''
  await store.changeKey(keyId, (key, at) => ({ key: revoke(key, at), successor: null }), AUDIT)
  return keyId
}

/** A window's ledger in dollars, for readable tables: "reserved spent released reason". */
export const ledgerOf = ({ reserved, spent, released, closed }: Window): string =>
  [formatUsd(reserved), formatUsd(spent), formatUsd(released), closed?.reason ?? 'open'].join(' ')

export async function assertSound(service: Service): Promise<void> {
  assert.deepEqual(await service.store.findFaults(), [])
}
