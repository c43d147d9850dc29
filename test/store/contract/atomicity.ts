// A refused or broken write leaves nothing behind, and unique records stay unique whatever a decision returns.

import assert from 'node:assert/strict'
import { confirm, LATE_FILLS_MAX, type Report } from '../../../src/core/confirmation.ts'
import type { Execution } from '../../../src/core/execution.ts'
import { type Usd, usd } from '../../../src/core/money.ts'
import { writePlan } from '../../../src/core/plan.ts'
import type { Problem } from '../../../src/core/problem.ts'
import { DAY_MS, MINUTE_MS } from '../../../src/core/time.ts'
import { linkUser } from '../../../src/core/user.ts'
import type { Store } from '../../../src/store/store.ts'
import { damage } from '../damage.ts'
import {
  AUDIT,
  afterFirst,
  allExecutions,
  allPlans,
  type Contract,
  each,
  enrol,
  enrolAll,
  failed,
  filled,
  keyFor,
  link,
  noted,
  PAGE,
  PLAN,
  plansNamed,
  poll,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'

const STOP = new Error('the decision changed its mind')
const stop = () => {
  throw STOP
}

const CONSENT = { consentAccepted: true, consentVersion: 'v1', consentTimestamp: T0 }

/** Everything visible to a partner, an operator or the scheduler. */
const everything = async (store: Store, { acme }: World) => ({
  executions: await allExecutions(store),
  plans: await allPlans(store),
  schedules: await store.findPlans('p1'),
  users: await store.listUsers(acme, { after: null, limit: 100 }),
  partners: await store.listPartners(),
  keys: await store.listKeys('acme'),
  late: await store.listLateFills({ after: null, limit: 100 }),
  audit: await store.listAudit({ after: null, limit: 100 }),
  webhook: await store.findWebhook(acme),
})

type Calls = readonly (() => Promise<string>)[]

/** Five plans with two executions each in one window, and reports of them, some of which touch each other. */
async function confirmAll(world: World, run: (calls: Calls) => Promise<string[]>) {
  const { store, acme } = world
  await enrolAll(store, acme, plansNamed(5))
  await tick(world, '60000')
  world.advance(DAY_MS - 10 * MINUTE_MS)
  await tick(world, '60000')
  const due = await poll(store, acme)
  const of = (plan: number, index: number) =>
    due.find((one) => one.partnerPlanId === `p${plan}` && one.trancheIndex === index) as Execution
  const [first, second, unknown] = [of(0, 0), of(0, 1), 'exec_00000000000070008000000000000000']
  const broken = failed('o4')
  const reports: [executionId: string, said: Report][] = [
    [first.executionId, filled(usd('3.33'), 'o1', 'partial')],
    [second.executionId, filled(second.amount, 'o2')],
    [first.executionId, filled(usd('3.33'), 'o1', 'partial')],
    [first.executionId, filled(usd('3.34'), 'o1', 'partial')],
    [of(1, 0).executionId, broken],
    [of(2, 0).executionId, filled(of(2, 0).amount, 'o2')],
    [of(2, 0).executionId, filled(of(2, 0).amount, 'o3')],
    [of(3, 0).executionId, filled(usd('59'), 'o5')],
    [unknown, filled(usd('1'), 'o6')],
    [of(4, 1).executionId, filled(of(4, 1).amount, 'o7')],
    // As many late fills as are kept of one execution.
    ...Array.from({ length: LATE_FILLS_MAX - 1 }, (_, i): [string, Report] => [
      of(3, 0).executionId,
      filled(usd(`${60 + i}`), 'o5'),
    ]),
  ]
  const outcomes = await run(
    reports.map(([executionId, said]) => async () => {
      const settled = await report(store, acme, executionId, said).catch((error: Problem) => error.code)
      if (typeof settled === 'string') return settled
      return settled.kind === 'refused' ? settled.reason : settled.kind
    }),
  )
  const records = await Promise.all(due.map(({ executionId }) => store.findExecution(executionId)))
  return {
    outcomes,
    late: each(await store.listLateFills(PAGE), 'reason'),
    plans: (await store.findPlans('p0')).map(({ schedule }) => schedule?.fireable),
    records: records.map((one) => [
      one?.execution.partnerPlanId,
      one?.execution.trancheIndex,
      one?.execution.status,
      one?.trade?.report,
      one?.window.reserved,
      one?.window.spent,
      one?.lateFills.length,
    ]),
  }
}

export const atomicityContract: Contract = (test) => {
  test('a decision that throws changes nothing, whichever method asked for it', async (world) => {
    const { store, acme, executionId, planId } = await afterFirst(world)
    const { keyId } = await store.addKey(keyFor(acme), AUDIT)
    await sendPlan(store, acme, { partnerPlanId: 'p2' })
    const before = await everything(store, world)
    const ids = { executionId, partnerOrderId: 'o1' }
    world.advance(10 * 60_000)
    // Separately: a poll may skip rows that another write has locked.
    const polling = store.deliverDue(acme, 10, stop)
    await Promise.allSettled([polling])
    const methods: [name: string, call: Promise<unknown>][] = [
      ['changePartner', store.changePartner('acme', stop, AUDIT)],
      ['changeKey', store.changeKey(keyId, stop, AUDIT)],
      ['changeUser', store.changeUser(acme, 'u1', stop)],
      ['changeUser, a new one', store.changeUser(acme, 'u9', stop)],
      ['changePlan', store.changePlan(acme, { partnerUserId: 'u1', partnerPlanId: 'p1' }, stop)],
      ['deliverDue', polling],
      ['confirmExecution', store.confirmExecution(acme, ids, stop)],
      ['changeWebhook', store.changeWebhook(acme, stop)],
      ['cancelExecution', store.cancelExecution(executionId, stop, AUDIT)],
      ['adjustTrade', store.adjustTrade(executionId, stop, noted)],
      [
        'changeDuePlans',
        store.changeDuePlans(1, [planId], { roll: () => null, decide: stop, newExecutionId: stop }),
      ],
    ]
    const outcomes = await Promise.allSettled(methods.map(([, call]) => call))
    assert.deepEqual(
      methods.map(([name], i) => [name, outcomes[i]]),
      methods.map(([name]) => [name, { status: 'rejected', reason: STOP }]),
    )
    assert.deepEqual(await everything(store, world), before)
  })

  test('a page that fails halfway takes nothing with it that shares its commit', async ({ store, acme }) => {
    await enrolAll(store, acme, ['p1', 'p2'])
    const planIds = (await allPlans(store)).map(({ planId }) => planId)
    const before = await store.findPlans('p1')
    let decided = 0
    const page = () =>
      store.changeDuePlans(1, planIds, {
        roll: () => null,
        decide: (schedule) => {
          if (++decided % 2 === 0) throw STOP
          return { schedule: { ...schedule, slot: 2 }, tranche: null }
        },
        newExecutionId: stop,
      })
    const user = (id: string) => link(store, acme, id)
    const outcomes = await Promise.allSettled([page(), user('u7'), page(), user('u8'), page(), user('u9')])
    const expected = outcomes.map((_, i) => (i % 2 === 0 ? 'rejected' : 'fulfilled'))
    assert.deepEqual(each(outcomes, 'status'), expected)
    const users = await store.listUsers(acme, { after: null, limit: 100 })
    assert.deepEqual(users.map(({ partnerUserId }) => partnerUserId).sort(), ['u1', 'u7', 'u8', 'u9'])
    assert.deepEqual([await store.findPlans('p1'), decided], [before, 6])
  })

  test('writes that share a commit are undone one by one', async ({ store, acme }) => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 200 }, (_, i) =>
        store.changeUser(acme, `u${i}`, (seen, now) => {
          if (i % 3 === 0) throw STOP
          return linkUser(seen, { ...CONSENT, partnerUserId: `u${i}` }, now)
        }),
      ),
    )
    const expected = outcomes.map((_, i) => (i % 3 === 0 ? 'rejected' : 'fulfilled'))
    assert.deepEqual(each(outcomes, 'status'), expected)
    const users = await store.listUsers(acme, { after: null, limit: 500 })
    const kept = Array.from({ length: 200 }, (_, i) => `u${i}`).filter((_, i) => i % 3 !== 0)
    assert.deepEqual(new Set(each(users, 'partnerUserId')), new Set(kept))
  })

  test('writes of one turn see each other, in the order they were made', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    const said = filled(usd('4'), 'o1', 'partial')
    const seen: (string | undefined)[] = []
    await Promise.all(
      Array.from({ length: 5 }, () =>
        store.confirmExecution(acme, { executionId, partnerOrderId: 'o1' }, (now) => {
          seen.push(now.execution?.status)
          const { execution, window } = now
          if (!execution || !window || now.trade) return { kind: 'replayed', report: said }
          return {
            kind: 'recorded',
            execution: { ...execution, status: 'partial' },
            window: { ...window, reserved: usd('0'), spent: usd('4') },
            trade: { executionId: execution.executionId, recordedAt: T0, receivedAt: null, report: said },
            settles: null,
          }
        }),
      ),
    )
    assert.deepEqual(seen, ['sent', 'partial', 'partial', 'partial', 'partial'])
  })

  test('confirmations that arrive together come to what they come to one by one', async (world) => {
    const atOnce = await confirmAll(world, (calls) => Promise.all(calls.map((call) => call())))
    const inTurn = await confirmAll(await world.another(), async (calls) => {
      const outcomes: string[] = []
      for (const call of calls) outcomes.push(await call())
      return outcomes
    })
    assert.deepEqual(atOnce, inTurn)
    assert.deepEqual(
      atOnce.outcomes.slice(0, -LATE_FILLS_MAX + 1),
      'recorded recorded replayed execution_recorded recorded order_id_taken recorded amount_over_reservation execution_not_found recorded'.split(
        ' ',
      ),
    )
  })

  test('a confirmation that the data refuse takes no other with it', async (world) => {
    const { store, acme } = world
    await enrolAll(store, acme, plansNamed(5))
    await tick(world, '60000')
    const due = await poll(store, acme)
    const outcomes = await Promise.allSettled(
      due.map(({ executionId, amount }, i) =>
        store.confirmExecution(acme, { executionId, partnerOrderId: `o${i}` }, (seen, now) => {
          const made = confirm(seen, filled(amount, `o${i}`), now)
          assert.ok(made.kind === 'recorded')
          return i === 2 ? { ...made, window: { ...made.window, spent: usd('60.01') } } : made
        }),
      ),
    )
    const isGood = due.map((_, i) => i !== 2)
    const expected = isGood.map((good) => (good ? 'fulfilled' : 'rejected'))
    assert.deepEqual(each(outcomes, 'status'), expected)
    const found = await Promise.all(due.map(({ executionId }) => store.findExecution(executionId)))
    assert.deepEqual(
      found.map((one) => [one?.execution.status, one?.trade !== null, one?.window.spent]),
      due.map(({ amount }, i) => (isGood[i] ? ['filled', true, amount] : ['sent', false, 0n])),
    )
  })
}

// Unique records stay unique whatever a decision returns, and the data themselves refuse what must never be written.

const FORBIDDEN: Record<string, string> = {
  'a window above its budget': 'update windows set spent = budget + 1',
  'a trade of nothing': "update trades set usd_amount = 0 where status = 'filled'",
  'an idempotency key twice': 'update executions set window_start = 0, tranche_index = 0',
  'an execution without its trade':
    'delete from executions where execution_id in (select execution_id from trades)',
  'an audit entry changed': "update audit set os_user = 'x'",
  'an audit entry removed': 'delete from audit',
  'a consent changed': "update consents set consent_version = 'x'",
  'a consent removed': 'delete from consents',
}

export const uniquenessContract: Contract = (test) => {
  test('an order id is recorded once in a tenant', async (world) => {
    const { store, acme } = world
    await enrolAll(store, acme, ['p1', 'p2'])
    await tick(world, '60000')
    const [first, second] = await poll(store, acme)
    assert.ok(first && second)
    await report(store, acme, first.executionId, filled(first.amount, 'o1'))
    const again = store.confirmExecution(
      acme,
      { executionId: second.executionId, partnerOrderId: 'o1' },
      (seen, now) => confirm({ ...seen, orderHeldBy: null }, filled(second.amount, 'o1'), now),
    )
    await assert.rejects(again)
    const { execution, trade, window } = (await store.findExecution(second.executionId)) ?? {}
    assert.deepEqual([execution?.status, trade, window?.spent], ['sent', null, 0n])
  })

  test('a plan exists once in a tenant', async ({ store, acme }) => {
    await enrol(store, acme)
    const unseen = { plan: null, window: null, usedStarts: [], usedBeforeReset: null }
    const again = store.changePlan(acme, { ...PLAN, partnerPlanId: 'p2' }, (seen, now) =>
      writePlan({ ...seen, ...unseen }, PLAN, now),
    )
    await assert.rejects(again)
    const [plan, another] = await store.findPlans('p1')
    assert.deepEqual([plan?.windows.length, another], [1, undefined])
  })

  test('a plan has one current window', async ({ store, acme }) => {
    await enrol(store, acme)
    const opening = store.changePlan(acme, PLAN, (seen, now) => ({
      ...writePlan(seen, { ...PLAN, amount: usd('70') }, now),
      close: null,
    }))
    await assert.rejects(opening)
    const [plan] = await store.findPlans('p1')
    assert.deepEqual([plan?.amount, plan?.windows.map(({ budget }) => budget)], [usd('60'), [usd('60')]])
  })

  test('a user exists once in a tenant', async ({ store, acme, advance }) => {
    await link(store, acme)
    advance(1)
    const request = { ...CONSENT, partnerUserId: 'u1' }
    // It may overwrite the user or refuse: either will do.
    await Promise.allSettled([store.changeUser(acme, 'u1', (_, now) => linkUser(null, request, now))])
    assert.equal((await store.listUsers(acme, PAGE)).length, 1)
  })

  test('a secret opens one door', async ({ store, acme, bolt }) => {
    const key = keyFor(acme)
    const audit = { osUser: 'test', action: 'key create', subject: 'acme', detail: {} }
    await store.addKey(key, audit)
    await assert.rejects(store.addKey(keyFor(bolt, { sha256: key.sha256 }), audit))
    assert.deepEqual(await store.listKeys('bolt'), [])
  })

  test('a refused report is kept once', async (world) => {
    const { store, acme, executionId, amount } = await afterFirst(world)
    await setUser(store, acme, 'u1', 'disabled')
    const said = filled(amount, 'o1')
    const unseen = () =>
      store.confirmExecution(acme, { executionId, partnerOrderId: 'o1' }, (seen, now) =>
        confirm({ ...seen, lateFills: [] }, said, now),
      )
    await Promise.allSettled([unseen(), unseen()])
    assert.equal((await store.listLateFills(PAGE)).length, 1)
  })

  test('a window never holds more than its budget', async (world) => {
    const { store, acme, executionId, amount } = await afterFirst(world)
    const spend = (spent: Usd, released: Usd) =>
      store.confirmExecution(acme, { executionId, partnerOrderId: 'o1' }, (seen, now) => {
        const made = confirm(seen, filled(amount, 'o1'), now)
        assert.ok(made.kind === 'recorded')
        return { ...made, window: { ...made.window, spent, released } }
      })
    await assert.rejects(spend(usd('60.01'), usd('0')))
    await assert.rejects(spend(amount, usd('1')), 'nothing is released while a window is current')
    const found = await store.findExecution(executionId)
    assert.deepEqual([found?.trade, found?.window.reserved, found?.window.spent], [null, amount, 0n])
  })

  test('the data refuse what the program must never write', async (world) => {
    const { store, acme, place, executionId, amount } = await afterFirst(world)
    await report(store, acme, executionId, filled(amount))
    world.advance(DAY_MS)
    await tick(world, '60000')
    assert.equal((await allExecutions(store)).length, 2)
    const before = await everything(store, world)
    for (const [what, sql] of Object.entries(FORBIDDEN)) await assert.rejects(damage(place, sql), what)
    assert.deepEqual(await everything(store, world), before)
  })
}
