// Users: every state against every request, what becomes of their plans and executions, and what is kept of consents.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Service, startService, USER } from '../support/service.ts'
import {
  assertSound,
  executionsOf,
  type Json,
  LOW_PRICE,
  link,
  PLANS,
  PRICE,
  plan,
  poll,
  setUser,
  succeed,
  USERS,
  userPath,
} from './steps.ts'

const STATES = ['none', 'linked', 'disabled'] as const
type State = (typeof STATES)[number]
type Verb = {
  method: string
  path: (id: string) => string
  body: (id: string) => Json
  /** Status of the answer, the user's state afterwards, and whether plans and executions go on. */
  cells: Record<State, `${number} ${State} ${'run' | 'stopped'}`>
}

const users = () => USERS

const VERBS: Record<string, Verb> = {
  link: {
    method: 'POST',
    path: users,
    body: (id) => ({ ...USER, partner_user_id: id }),
    cells: { none: '200 linked run', linked: '200 linked run', disabled: '200 disabled stopped' },
  },
  'link without consent': {
    method: 'POST',
    path: users,
    body: (id) => ({ ...USER, partner_user_id: id, consent_accepted: false, consent_version: 'v9' }),
    cells: { none: '400 none run', linked: '400 linked run', disabled: '400 disabled stopped' },
  },
  'set linked': {
    method: 'PATCH',
    path: userPath,
    body: () => ({ status: 'linked' }),
    cells: { none: '404 none run', linked: '200 linked run', disabled: '200 linked stopped' },
  },
  'set disabled': {
    method: 'PATCH',
    path: userPath,
    body: () => ({ status: 'disabled' }),
    cells: { none: '404 none run', linked: '200 disabled stopped', disabled: '200 disabled stopped' },
  },
  'make a plan': {
    method: 'POST',
    path: () => PLANS,
    body: (id) => ({
      partner_user_id: id,
      partner_plan_id: `new ${id}`,
      amount_usd: '5',
      frequency: 'daily',
    }),
    cells: { none: '404 none run', linked: '200 linked run', disabled: '403 disabled stopped' },
  },
}

const DETAILS: Record<string, string> = {
  '400': 'User consent is required.',
  '403': 'Partner user is not active (disabled).',
  '404 PATCH': 'Partner user not found.',
  '404 POST': 'Partner user not found; create and link the user first.',
}

/** A user with an active, a paused and a cancelled plan, each of which has fired twice: once fetched, once not. */
async function prepare(service: Service): Promise<void> {
  const ids = STATES.flatMap((state) => Object.keys(VERBS).map((verb) => ({ state, id: `${state} ${verb}` })))
  const known = ids.filter(({ state }) => state !== 'none')
  for (const { id } of known) {
    await link(service, id)
    for (const kind of ['active', 'paused', 'cancelled']) await plan(service, id, `${kind} ${id}`)
  }
  await service.tick(PRICE)
  await poll(service)
  await service.tick(LOW_PRICE)
  for (const { id } of known) {
    for (const status of ['paused', 'cancelled']) await plan(service, id, `${status} ${id}`, { status })
  }
  for (const { state, id } of known) if (state === 'disabled') await setUser(service, id, 'disabled')
}

async function statusOf(service: Service, id: string): Promise<string> {
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  const all = await service.store.listUsers(tenant, { after: null, limit: 1000 })
  return all.find((user) => user.partnerUserId === id)?.status ?? 'none'
}

/** The states of a user's three plans, and of the executions of each. */
async function plansOf(service: Service, id: string): Promise<Json> {
  const entries = ['active', 'paused', 'cancelled'].map(async (kind) => {
    const [found] = await service.store.findPlans(`${kind} ${id}`)
    const executions = await executionsOf(service, `${kind} ${id}`)
    return [kind, [found?.status, ...executions.map(({ status }) => status)].join(' ')] as const
  })
  return Object.fromEntries(await Promise.all(entries))
}

const PLANS_AFTER = {
  run: {
    active: 'active sent pending',
    paused: 'paused sent pending',
    cancelled: 'cancelled cancelled cancelled',
  },
  stopped: {
    active: 'paused cancelled cancelled',
    paused: 'paused cancelled cancelled',
    cancelled: 'cancelled cancelled cancelled',
  },
}

test('every user request in every state', async (t) => {
  const service = await startService(t)
  await prepare(service)
  for (const state of STATES) {
    for (const [name, verb] of Object.entries(VERBS)) {
      const id = `${state} ${name}`
      const [status, after, effect] = verb.cells[state].split(' ') as [string, State, 'run' | 'stopped']
      const answer = await service.call(verb.method, verb.path(id), verb.body(id))
      assert.equal(String(answer.status), status, `${id}: ${JSON.stringify(answer.body)}`)
      if (status !== '200') {
        assert.equal(answer.body.detail, DETAILS[status] ?? DETAILS[`${status} ${verb.method}`], id)
      }
      assert.equal(await statusOf(service, id), after, id)
      if (state !== 'none') assert.deepEqual(await plansOf(service, id), PLANS_AFTER[effect], id)
      if (name !== 'set disabled' || status !== '200') continue
      const counts = state === 'linked' ? [1, 4] : [0, 0]
      assert.deepEqual([answer.body.plans_paused, answer.body.executions_cancelled], counts, id)
    }
  }
  await assertSound(service)
})

test('an optional field left out is kept, null clears it, and the answer is the whole user', async (t) => {
  const service = await startService(t)
  const send = (more: Json) => succeed(service, 'POST', USERS, { ...USER, ...more })
  const first = await send({ email: 'a@example.com', auth_provider: 'apple' })
  assert.deepEqual(first, {
    partner_user_id: 'u1',
    email: 'a@example.com',
    auth_provider: 'apple',
    consent_accepted: true,
    consent_version: 'v1',
    consent_timestamp: '2026-01-01T00:00:00.000Z',
    status: 'linked',
    created_at: '2026-01-05T00:00:00.000Z',
    updated_at: '2026-01-05T00:00:00.000Z',
  })
  service.advance(1000)
  const later = { ...first, updated_at: '2026-01-05T00:00:01.000Z' }
  assert.deepEqual(await send({}), later)
  assert.deepEqual(await send({ email: null }), { ...later, email: null })
  assert.deepEqual(await send({ email: 'b@example.com' }), { ...later, email: 'b@example.com' })
  assert.deepEqual(await send({ auth_provider: null }), {
    ...later,
    email: 'b@example.com',
    auth_provider: null,
  })
})
