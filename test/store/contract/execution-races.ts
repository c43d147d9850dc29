// Two hosts, and what is done to one execution, order, window or plan at the same moment: the ledger is as if one of
// them had come first.

import assert from 'node:assert/strict'
import { cancelByHand } from '../../../src/core/confirmation.ts'
import type { Execution } from '../../../src/core/execution.ts'
import { acceptLate } from '../../../src/core/late-fill.ts'
import { type Usd, usd } from '../../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/core/time.ts'
import { AUDIT, allExecutions, type Contract, link, poll, sendPlan, tick } from '../world.ts'
import { adjustOn, confirmOn, during, kindsOf, ledgerOf, PLANS, race, refusal } from './race.ts'

export const executionRaceContract: Contract = {
  'one confirmation that reaches two hosts is recorded once, and replayed once': race(async (hosts, due) => {
    const { world, here, there } = hosts
    await Promise.all(
      due.map(async (one) => {
        const made = await Promise.all(
          [here, there].map((store) => confirmOn(store, world, one, one.executionId)),
        )
        assert.deepEqual(kindsOf(made), ['recorded', 'replayed'])
      }),
    )
    for (const one of due) assert.equal((await ledgerOf(hosts, one)).spent, one.amount)
  }),

  'of two orders for one execution one is recorded, and the other kept': race(async (hosts, due) => {
    const { world, here, there } = hosts
    for (const one of due) {
      const made = await Promise.all([
        confirmOn(here, world, one, `${one.executionId} a`),
        confirmOn(there, world, one, `${one.executionId} b`),
      ])
      assert.deepEqual(kindsOf(made), ['recorded', 'refused'])
      const refused = made.find(({ kind }) => kind === 'refused')
      assert.ok(refused?.kind === 'refused')
      assert.equal(refused.reason, 'execution_recorded')
      assert.equal((await ledgerOf(hosts, one)).spent, one.amount)
    }
    assert.equal((await here.listLateFills({ after: null, limit: 100 })).length, PLANS)
  }),

  'an order id that two hosts hear for two executions is recorded for one of them': race(
    async (hosts, due) => {
      const { world, here, there } = hosts
      for (let i = 0; i < PLANS; i += 2) {
        const pair = due.slice(i, i + 2)
        const made = await Promise.all(
          pair.map((one, at) => confirmOn(at === 0 ? here : there, world, one, `o${i}`)),
        )
        assert.deepEqual(kindsOf(made), ['recorded', 'refused'])
        const refused = made.find(({ kind }) => kind === 'refused')
        assert.ok(refused?.kind === 'refused')
        assert.equal(refused.reason, 'order_id_taken')
        const orders = await Promise.all(pair.map((one) => ledgerOf(hosts, one)))
        assert.equal(orders.filter(({ order }) => order === `o${i}`).length, 1)
      }
    },
  ),

  'confirmations of one window and one order in one batch see each other': race(async ({ world, here }) => {
    world.advance(8 * HOUR_MS)
    await tick(world, '60000')
    const more = await poll(here, world.acme)
    const all = [...(await here.readExecutions(world.acme, BEGINNING)).executions]
    assert.ok(more.length >= PLANS && all.length >= 2 * PLANS)
    const made = await Promise.all(
      all.flatMap((one) => [
        confirmOn(here, world, one, one.executionId),
        confirmOn(here, world, one, one.executionId),
        confirmOn(here, world, one, `${one.executionId} another`),
      ]),
    )
    const count = (kind: string) => made.filter((one) => one.kind === kind).length
    assert.deepEqual(
      [count('recorded'), count('replayed'), count('refused')],
      [all.length, all.length, all.length],
    )
    const [first, second] = all
    assert.ok(first && second)
    const taken = await confirmOn(here, world, second, first.executionId)
    assert.equal(taken.kind, 'refused')
  }),

  'an execution that is confirmed while an operator cancels it is one or the other': race(
    async (hosts, due) => {
      const { world, here, there } = hosts
      for (const [i, one] of due.entries()) {
        const cancel = (meanwhile = () => {}) =>
          refusal(
            there.cancelExecution(
              one.executionId,
              (seen, at) => {
                meanwhile()
                return cancelByHand(seen, 'lost', at)
              },
              AUDIT,
            ),
            'execution_recorded',
          )
        const tell = () => confirmOn(here, world, one, one.executionId)
        const [cancelled, made] =
          i % 2 === 0 ? await during(cancel, tell) : await Promise.all([cancel(), tell()])
        const { status, reserved, spent } = await ledgerOf(hosts, one)
        const expected = made.kind === 'recorded' ? ['filled', 0n, one.amount] : ['cancelled', 0n, 0n]
        assert.deepEqual([status, reserved, spent], expected)
        assert.equal(cancelled, made.kind === 'recorded' ? 'execution_recorded' : null)
        if (made.kind === 'refused') assert.equal(made.reason, 'execution_cancelled')
      }
    },
  ),

  'a trade that is adjusted while its window is confirmed on takes nothing of it away': race(
    async (hosts, due) => {
      const { world, here, there } = hosts
      for (const one of due) await confirmOn(here, world, one, one.executionId)
      world.advance(8 * HOUR_MS)
      await tick(world, '60000')
      const next = await poll(here, world.acme)
      assert.equal(next.length, PLANS)
      for (const [i, one] of due.entries()) {
        const other = next[i] as Execution
        assert.equal(other.windowId, one.windowId)
        await during(
          (meanwhile) => adjustOn(there, one.executionId, '3.00', meanwhile),
          () => confirmOn(here, world, other, other.executionId),
        )
        const { reserved, spent } = await ledgerOf(hosts, one)
        assert.deepEqual([reserved, spent], [0n, (usd('3.00') + other.amount) as Usd])
      }
    },
  ),

  'adjustments that are made at once have numbers of their own': race(async ({ world, here, there }, due) => {
    for (const one of due) await confirmOn(here, world, one, one.executionId)
    const made = await Promise.all(
      due.map(({ executionId }, i) => adjustOn(i % 2 === 0 ? here : there, executionId, '4.00')),
    )
    const numbers = made.map(({ adjustment }) => adjustment.adjustmentId)
    assert.equal(new Set(numbers).size, PLANS)
  }),

  'an order that an operator accepts while another execution is confirmed with it is held by one': race(
    async (hosts, due) => {
      const { world, here, there } = hosts
      for (let i = 0; i < PLANS; i += 2) {
        const [one, other] = due.slice(i, i + 2) as [Execution, Execution]
        const order = `o${i}`
        await confirmOn(here, world, one, `first ${i}`)
        assert.equal((await confirmOn(here, world, one, order)).kind, 'refused')
        const [made, accepted] = await Promise.all([
          confirmOn(here, world, other, order),
          refusal(
            there.acceptLateFill({ executionId: one.executionId, reportId: null }, acceptLate, () => AUDIT),
            'order_id_taken',
          ),
        ])
        assert.deepEqual([made.kind, accepted], made.kind === 'recorded' ? RECORDED : ACCEPTED)
      }
    },
  ),

  'an execution that is polled for while an operator accepts a report of it is not handed out afterwards':
    race(
      async ({ world, here, there }) => {
        const pending = await allExecutions(here)
        assert.equal(pending.length, PLANS)
        for (const one of pending) await confirmOn(here, world, one, one.executionId)
        const accept = ({ executionId }: Execution) =>
          there.acceptLateFill({ executionId, reportId: null }, acceptLate, () => AUDIT)
        const polled = pending.map(() => poll(here, world.acme, 1))
        await Promise.all([...polled, ...pending.map(accept)])
        world.advance(HOUR_MS)
        assert.deepEqual(await poll(here, world.acme), [])
        const filled = await allExecutions(here)
        assert.ok(filled.every(({ status }) => status === 'filled'))
      },
      { delivered: false },
    ),

  'a plan that is changed while it is confirmed keeps both': race(async (hosts, due) => {
    const { world, here, there } = hosts
    for (const [i, one] of due.entries()) {
      const change = i % 2 === 0 ? { amount: usd('90.00') } : { status: 'cancelled' as const }
      const [made] = await Promise.all([
        confirmOn(here, world, one, one.executionId),
        sendPlan(there, world.acme, { partnerPlanId: one.partnerPlanId, ...change }),
      ])
      const { status, reserved, spent } = await ledgerOf(hosts, one)
      const expected = made.kind === 'recorded' ? ['filled', 0n, one.amount] : ['cancelled', 0n, 0n]
      assert.deepEqual([status, reserved, spent], expected)
      if (i % 2 === 0) assert.equal(made.kind, 'recorded', 'a new amount cancels nothing')
      const [plan] = await here.findPlans(one.partnerPlanId)
      assert.equal(plan?.windows[0]?.closed?.at, world.now())
    }
  }),

  'plans that two hosts make under one name are one plan': race(async ({ world, here, there }) => {
    for (let i = 0; i < PLANS; i++) {
      const partnerPlanId = `new ${i}`
      await link(here, world.acme, `other ${i}`)
      const refused = await Promise.all([
        refusal(sendPlan(here, world.acme, { partnerPlanId }), 'plan_bound_elsewhere'),
        refusal(
          sendPlan(there, world.acme, { partnerPlanId, partnerUserId: `other ${i}` }),
          'plan_bound_elsewhere',
        ),
      ])
      assert.deepEqual(refused.filter((code) => code === null).length, 1)
      const [plan, another] = await here.findPlans(partnerPlanId)
      assert.deepEqual([plan?.windows.length, another], [1, undefined])
    }
  }),

  'a confirmation while the window of its plan is rolled stays in the window it belongs to': race(
    async (hosts, due) => {
      const { world, here, there } = hosts
      world.advance(DAY_MS)
      const [pass, ...made] = await Promise.all([
        tick({ ...world, store: there }, '60000'),
        ...due.map((one) => confirmOn(here, world, one, one.executionId)),
      ])
      assert.deepEqual([pass.windowsRolled, kindsOf(made)], [PLANS, due.map(() => 'recorded')])
      for (const one of due) {
        const { reserved, spent } = await ledgerOf(hosts, one)
        assert.deepEqual([reserved, spent], [0n, one.amount])
        const [plan] = await here.findPlans(one.partnerPlanId)
        assert.deepEqual([plan?.window?.spent, plan?.windows.length], [0n, 2])
      }
    },
  ),

  'polls of two hosts at once share no execution, and miss none': race(
    async ({ world, here, there }) => {
      for (let round = 0; round < 3; round++) {
        const pages = await Promise.all(
          [here, there, here, there, here, there].map((store) => poll(store, world.acme, 3)),
        )
        const ids = pages.flat().map(({ executionId }) => executionId)
        assert.deepEqual([ids.length, new Set(ids).size], [PLANS, PLANS])
        assert.deepEqual(await poll(there, world.acme), [])
        world.advance(5 * MINUTE_MS)
      }
    },
    { delivered: false },
  ),
}

const BEGINNING = { after: { createdAt: 0 as Execution['createdAt'], executionId: '' }, limit: 1_000 }
const RECORDED = ['recorded', 'order_id_taken']
const ACCEPTED = ['refused', null]
