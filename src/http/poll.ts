// The poll over HTTP: what is due, and how much of it one answer brings.

import { assert } from '../core/assert.ts'
import type { Execution } from '../core/execution.ts'
import { deliver } from '../core/lease.ts'
import type { Tenant } from '../core/partner.ts'
import { type DueJson, duePageAnswer } from './answers/schemas.ts'
import { executionJson } from './executions.ts'
import { DUE_PAGE_MAX } from './paging.ts'
import { route } from './route.ts'

export const getDue = route({
  method: 'GET',
  path: '/partner/v1/executions/due',
  answer: duePageAnswer,
  handle: async ({ store, tenant, setHeader }) => {
    const { executions, remaining } = await store.deliverDue(tenant, DUE_PAGE_MAX, deliver)
    setHeader('x-due-remaining', String(remaining))
    return executions.map((execution) => dueJson(tenant, execution))
  },
})

function dueJson(tenant: Tenant, execution: Execution): DueJson {
  const json = executionJson(tenant, execution)
  assert(json.lease_expires_at !== null, 'what is delivered is leased')
  return { ...json, lease_expires_at: json.lease_expires_at }
}
