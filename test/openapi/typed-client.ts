// A partner's program: every route of the API through openapi-fetch and types generated from the API description. It
// imports nothing of ours, so that it compiles in a folder of its own.

import assert from 'node:assert/strict'
import type { Client } from 'openapi-fetch'
import type { paths } from './tranche.d.ts'

const CONFIRM = '/partner/v1/executions/{execution_id}/confirm'
const EXECUTION = { usd_amount: '10.00', btc_amount: '0.00100000', execution_price: '60000.00' }

/** Links a user and makes a plan; once `pass` has run, buys, and reads the results. */
export async function takeEveryRoute(api: Client<paths>, pass: () => Promise<unknown>): Promise<void> {
  const me = await api.GET('/partner/v1/me')
  assert.equal(me.data?.partner_slug, 'acme')
  const consent = { consent_accepted: true, consent_version: 'v1', consent_timestamp: '2026-01-01T00:00:00Z' }
  const user = await api.POST('/partner/v1/users', { body: { partner_user_id: 'u1', ...consent } })
  assert.equal(user.data?.status, 'linked')
  const linked = await api.GET('/partner/v1/users', { params: { query: { limit: 10 } } })
  assert.deepEqual([linked.data?.users.length, linked.data?.next_cursor], [1, null])
  const one = await api.GET('/partner/v1/users/{partner_user_id}', {
    params: { path: { partner_user_id: 'u1' } },
  })
  assert.deepEqual(one.data?.consents[0]?.version, 'v1')
  const made = await api.POST('/partner/v1/plans', {
    body: { partner_user_id: 'u1', partner_plan_id: 'p1', amount_usd: '60.00', frequency: 'daily' },
  })
  assert.equal(made.data?.amount_usd, '60.00')
  await pass()
  const due = await api.GET('/partner/v1/executions/due')
  assert.equal(due.response.headers.get('x-due-remaining'), '0')
  const [first] = due.data ?? assert.fail('nothing is due')
  const call = {
    params: { path: { execution_id: first?.execution_id ?? '' } },
    body: { partner_order_id: 'order-1', status: 'filled' as const, ...EXECUTION },
  }
  assert.deepEqual((await api.POST(CONFIRM, call)).data?.replayed, undefined)
  assert.deepEqual((await api.POST(CONFIRM, call)).data?.replayed, true)

  const plans = await api.GET('/partner/v1/plans', { params: { query: { limit: 10 } } })
  assert.deepEqual([plans.data?.plans.length, plans.data?.next_cursor], [1, null])
  const seen = await api.GET('/partner/v1/plans/{partner_plan_id}', {
    params: { path: { partner_plan_id: 'p1' } },
  })
  assert.deepEqual([seen.data?.window?.spent_usd, seen.data?.next_step], ['10.00', 'buy'])
  const since = { since: '2026-01-01T00:00:00Z' }
  const executions = await api.GET('/partner/v1/executions', { params: { query: since } })
  assert.deepEqual(executions.data?.executions[0]?.status, 'filled')
  const trades = await api.GET('/partner/v1/trades', { params: { query: { month: '2026-01' } } })
  assert.deepEqual(trades.data?.trades[0]?.partner_order_id, 'order-1')

  const url = 'https://127.0.0.1/tranche'
  const registered = await api.POST('/partner/v1/webhooks', { body: { url } })
  assert.match(registered.data?.secret ?? '', /^sse_whsec_/)
  assert.equal((await api.GET('/partner/v1/webhooks')).data?.url, url)
  const tested = await api.POST('/partner/v1/webhooks/test', { body: {} })
  const sent = await api.GET('/partner/v1/webhooks/deliveries')
  assert.deepEqual([tested.data?.delivered, sent.data?.deliveries[0]?.test], [false, true])
  assert.equal((await api.DELETE('/partner/v1/webhooks')).data?.deleted, true)
  const month = { params: { query: { month: '2026-01' } } }
  assert.equal((await api.GET('/partner/v1/billing/monthly', month)).data?.volume_usd, '10.00')
  const users = await api.GET('/partner/v1/billing/monthly/users', month)
  assert.equal(users.data?.users[0]?.partner_user_id, 'u1')
  const changed = await api.PATCH('/partner/v1/users/{partner_user_id}', {
    params: { path: { partner_user_id: 'u1' } },
    body: { status: 'disabled' },
  })
  assert.equal(changed.data?.plans_paused, 1)
}

/** Advances a sandbox, fires a tranche in it, and resets it. */
export async function takeSandbox(api: Client<paths>): Promise<void> {
  const moved = await api.POST('/partner/v1/sandbox/advance', { body: { by: '1d', price_usd: '64000' } })
  assert.equal(moved.data?.done, true)
  const now = await api.GET('/partner/v1/sandbox')
  assert.deepEqual([now.data?.now, now.data?.advancing_to], [moved.data?.to, null])
  const fired = await api.POST('/partner/v1/sandbox/fire', { body: { partner_plan_id: 'p1' } })
  assert.equal(fired.data?.partner_plan_id, 'p1')
  const wiped = await api.POST('/partner/v1/sandbox/reset', { body: {} })
  assert.equal(wiped.data?.plans, 1)
}

/** Reports that nothing was bought, twice: a report of another shape, and a refusal. */
export async function reportFailures(api: Client<paths>, executionId: string): Promise<void> {
  const params = { path: { execution_id: executionId } }
  const body = { partner_order_id: 'order-1', status: 'failed' as const, failure_reason: 'no funds' }
  const failed = await api.POST(CONFIRM, { params, body })
  assert.equal(failed.data?.status, 'failed')
  const { error } = await api.POST(CONFIRM, { params, body: { ...body, partner_order_id: 'order-2' } })
  assert.match(String(error?.detail), /already confirmed with status failed/)
}
