// Executions: every state against everything that can be asked of one, with the ledger of its window afterwards.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LEASE_MS } from '../../src/core/execution.ts'
import { fill, type Service, startService } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  executionsOf,
  type Json,
  ledgerOf,
  link,
  PRICE,
  plan,
  poll,
  setUser,
  succeed,
} from './steps.ts'

/**
 * The states an execution may be in; `lapsed` is sent with its lease over, `withdrawn` and `ended` by a plan cancel.
 */
const STATES = [
  'pending',
  'sent',
  'lapsed',
  'filled',
  'partial',
  'failed',
  'cancelled',
  'withdrawn',
  'ended',
] as const
type State = (typeof STATES)[number]

/** The report that brings a sent execution of 10.00 into its recorded state. */
const reportOf = (state: State, order: string): Json => {
  if (state === 'partial') return fill(order, '4.00', 'partial')
  if (state === 'failed') return { partner_order_id: order, status: 'failed', failure_reason: 'no funds' }
  if (state === 'cancelled') return { partner_order_id: order, status: 'cancelled' }
  return fill(order, '8.00')
}

/** What is asked of the execution; a number is the status of the answer. */
const VERBS: Record<
  string,
  (service: Service, id: string, at: { plan: string; state: State }) => Promise<number>
> = {
  'the same report': (service, id, { plan, state }) =>
    confirm(service, id, reportOf(state, `order of ${plan}`)),
  'another fill': (service, id) => confirm(service, id, fill(`new ${id}`, '9.00')),
  'another partial fill': (service, id) => confirm(service, id, fill(`new ${id}`, '3.00', 'partial')),
  'another failure': (service, id) =>
    confirm(service, id, { partner_order_id: `new ${id}`, status: 'failed', failure_reason: 'venue down' }),
  'another cancellation': (service, id) =>
    confirm(service, id, { partner_order_id: `new ${id}`, status: 'cancelled' }),
  'more than reserved': (service, id) => confirm(service, id, fill(`new ${id}`, '10.01')),
  'an order id of another': (service, id) => confirm(service, id, fill('taken', '9.00')),
  'plan paused': (service, _, { plan, state }) =>
    rewrite(service, plan, isOver(state) ? {} : { status: 'paused' }),
  'plan reset': (service, _, { plan }) => rewrite(service, plan, { amount_usd: '90.00' }),
  'plan cancelled': (service, _, { plan }) => rewrite(service, plan, { status: 'cancelled' }),
  'user disabled': async (service, _, { plan }) => {
    await setUser(service, plan, 'disabled')
    return 200
  },
}

const isOver = (state: State): boolean => state === 'withdrawn' || state === 'ended'

const confirm = async (service: Service, id: string, report: Json): Promise<number> =>
  (await service.call('POST', confirmPath(id), report)).status

async function rewrite(service: Service, id: string, more: Json): Promise<number> {
  await plan(service, id, id, more)
  return 200
}

type Expected = `${number} ${string}: ${string}`

/** Where nothing changes, whatever is asked: the state, and the window's reserved, spent and released dollars. */
const STAY: Record<State, string> = {
  pending: 'pending: 10.00 0.00 0.00 open',
  sent: 'sent: 10.00 0.00 0.00 open',
  lapsed: 'sent: 10.00 0.00 0.00 open',
  filled: 'filled: 0.00 8.00 0.00 open',
  partial: 'partial: 0.00 4.00 0.00 open',
  failed: 'failed: 0.00 0.00 0.00 open',
  cancelled: 'cancelled: 0.00 0.00 0.00 open',
  withdrawn: 'cancelled: 0.00 0.00 60.00 cancelled',
  ended: 'cancelled: 0.00 0.00 60.00 cancelled',
}

/** What a report does to an execution that is out with the partner; everywhere else it is 409 and changes nothing. */
const OF_SENT: Record<string, Expected> = {
  'the same report': '200 filled: 0.00 8.00 0.00 open',
  'another fill': '200 filled: 0.00 9.00 0.00 open',
  'another partial fill': '200 partial: 0.00 3.00 0.00 open',
  'another failure': '200 failed: 0.00 0.00 0.00 open',
  'another cancellation': '200 cancelled: 0.00 0.00 0.00 open',
  'more than reserved': `400 ${STAY.sent}` as Expected,
  'an order id of another': `409 ${STAY.sent}` as Expected,
}

const OF_PLAN: Record<string, Record<State, string>> = {
  'plan paused': STAY,
  'plan reset': {
    pending: 'pending: 10.00 0.00 50.00 reset',
    sent: 'sent: 10.00 0.00 50.00 reset',
    lapsed: 'sent: 10.00 0.00 50.00 reset',
    filled: 'filled: 0.00 8.00 52.00 reset',
    partial: 'partial: 0.00 4.00 56.00 reset',
    failed: 'failed: 0.00 0.00 60.00 reset',
    cancelled: 'cancelled: 0.00 0.00 60.00 reset',
    withdrawn: STAY.withdrawn,
    ended: STAY.ended,
  },
  'plan cancelled': {
    pending: 'cancelled: 0.00 0.00 60.00 cancelled',
    sent: 'cancelled: 0.00 0.00 60.00 cancelled',
    lapsed: 'cancelled: 0.00 0.00 60.00 cancelled',
    filled: 'filled: 0.00 8.00 52.00 cancelled',
    partial: 'partial: 0.00 4.00 56.00 cancelled',
    failed: 'failed: 0.00 0.00 60.00 cancelled',
    cancelled: 'cancelled: 0.00 0.00 60.00 cancelled',
    withdrawn: STAY.withdrawn,
    ended: STAY.ended,
  },
  'user disabled': {
    ...STAY,
    pending: 'cancelled: 0.00 0.00 0.00 open',
    sent: 'cancelled: 0.00 0.00 0.00 open',
    lapsed: 'cancelled: 0.00 0.00 0.00 open',
  },
}

function expected(verb: string, state: State): string {
  const ofPlan = OF_PLAN[verb]
  if (ofPlan) return `200 ${ofPlan[state]}`
  if (state === 'sent' || state === 'lapsed') return OF_SENT[verb] ?? ''
  const recorded = ['filled', 'partial', 'failed', 'cancelled'].includes(state)
  return `${verb === 'the same report' && recorded ? 200 : 409} ${STAY[state]}`
}

/** One execution of 10.00 for each verb, all brought into the state; returns them by verb. */
async function prepare(service: Service, state: State): Promise<Map<string, string>> {
  await link(service, 'holder')
  await plan(service, 'holder', 'holder')
  await service.tick(PRICE)
  const held = String((await poll(service)).get('holder')?.[0]?.execution_id)
  await succeed(service, 'POST', confirmPath(held), fill('taken', '10.00'))

  const names = Object.keys(VERBS)
  await Promise.all(names.map((name) => link(service, name)))
  await Promise.all(names.map((name) => plan(service, name, name)))
  await service.tick(PRICE)
  if (state !== 'pending' && state !== 'withdrawn') await poll(service)
  const ids = new Map<string, string>()
  for (const name of names) {
    const [execution] = await executionsOf(service, name)
    const id = execution?.executionId ?? ''
    ids.set(name, id)
    if (isOver(state)) await plan(service, name, name, { status: 'cancelled' })
    else if (!['pending', 'sent', 'lapsed'].includes(state)) {
      await succeed(service, 'POST', confirmPath(id), reportOf(state, `order of ${name}`))
    }
  }
  if (state === 'lapsed') service.advance(LEASE_MS)
  return ids
}

for (const state of STATES) {
  test(`an execution that is ${state}: every request, and the poll`, async (t) => {
    const service = await startService(t)
    const ids = await prepare(service, state)
    for (const [verb, ask] of Object.entries(VERBS)) {
      const id = ids.get(verb) ?? ''
      const status = await ask(service, id, { plan: verb, state })
      const found = await service.store.findExecution(id)
      assert.ok(found)
      const is = `${status} ${found.execution.status}: ${ledgerOf(found.window)}`
      assert.equal(is, expected(verb, state), `${verb} when ${state}`)
      const recorded = ['filled', 'partial', 'failed'].includes(found.execution.status)
      assert.equal(
        found.trade !== null,
        recorded || (found.execution.status === 'cancelled' && !found.execution.cancelledAt),
      )
    }
    // Of the verbs, the refused ones and the plan's pause and reset leave an execution open; a lease in force holds it.
    const open = state === 'pending' ? 9 : state === 'lapsed' ? 4 : 0
    const due = [...(await poll(service)).values()].flat()
    assert.equal(due.length, open)
    for (const one of due) assert.equal(one.delivered_count, state === 'lapsed' ? 2 : 1)
    await assertSound(service)
  })
}
