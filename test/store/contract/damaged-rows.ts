// A row that differs from the stored one: the check names it, and no changed late fill is accepted.

import assert from 'node:assert/strict'
import { usd } from '../../../src/core/money.ts'
import { damage } from '../damage.ts'
import {
  accept,
  adjustTo,
  afterFirst,
  allPlans,
  type Contract,
  each,
  enrol,
  filled,
  PAGE,
  poll,
  problem,
  report,
  setUser,
  tick,
  type World,
} from '../world.ts'

const DAMAGED = problem('database_damaged')

const kinds = async ({ store }: World): Promise<string[]> =>
  (await store.findFaults()).map(({ kind }) => kind)

const changed = async ({ store }: World): Promise<string[]> =>
  (await store.findFaults()).filter(({ kind }) => kind === 'row_changed').map(({ subject }) => subject)

const keptAndDamaged = async (world: World, sql: string) => {
  const { store, acme, place, executionId } = await afterFirst(world)
  await setUser(store, acme, 'u1', 'disabled')
  const said = filled(usd('9'), 'o1')
  assert.equal((await report(store, acme, executionId, said)).kind, 'refused')
  await damage(place, sql)
  return { executionId, said }
}

/** Columns that a digest covers, and the finding that names a change. Adjustments are in test/cli/check.test.ts. */
const COVERED = {
  trades: {
    kind: 'trade_changed',
    numbers: ['usd_amount', 'btc_amount', 'execution_price', 'recorded_at', 'received_at', 'executed_at'],
    texts: ['partner_order_id'],
  },
  late_reports: {
    kind: 'row_changed',
    numbers: ['usd_amount', 'btc_amount', 'execution_price', 'received_at'],
    texts: ['partner_order_id', 'fingerprint'],
  },
} as const

export const damagedRowContract: Contract = (test) => {
  test('the check names a trade or a late report by each column that is not what was stored', async (world) => {
    const { store, acme, place, executionId } = await afterFirst(world)
    await report(store, acme, executionId, filled(usd('9'), 'o1'))
    await report(store, acme, executionId, filled(usd('8'), 'o2'))
    await adjustTo(world, executionId, '7')
    assert.deepEqual(await kinds(world), [])
    for (const [table, { kind, numbers, texts }] of Object.entries(COVERED)) {
      const changes = [
        ...numbers.map((name) => [`${name} = coalesce(${name}, 0) + 1`, `${name} = nullif(${name} - 1, 0)`]),
        ...texts.map((name) => [`${name} = 'x' || substr(${name}, 2)`, null] as const),
      ]
      for (const [change, back] of changes) {
        const name = change?.split(' ')[0]
        const saved = `create table saved as select ${name} as was from ${table}`
        if (back === null) await damage(place, saved)
        await damage(place, `update ${table} set ${change}`)
        assert.ok((await kinds(world)).includes(kind), `${table}: ${change}`)
        const undo = back ?? `${name} = (select was from saved)`
        await damage(place, `update ${table} set ${undo}`)
        if (back === null) await damage(place, 'drop table saved')
        assert.deepEqual(await kinds(world), [], `${table}: ${undo}`)
      }
    }
  })

  test('a late fill that is not what the partner reported is not accepted, and its retry is answered as ever', async (world) => {
    const { another } = world
    for (const sql of [
      'update late_reports set usd_amount = usd_amount + 1',
      "update late_reports set fingerprint = 'x' || substr(fingerprint, 2)",
      'update late_reports set received_at = received_at + 1',
      "update late_reports set reason = 'execution_pending'",
      "update late_reports set content_digest = 'x' || substr(content_digest, 2)",
    ]) {
      const world = await another()
      const { store, acme } = world
      const { executionId, said } = await keptAndDamaged(world, sql)
      await assert.rejects(accept(world, executionId), DAMAGED)
      assert.equal((await report(store, acme, executionId, said)).kind, 'refused')
      const [late] = await store.listLateFills(PAGE)
      assert.deepEqual([late?.acceptedAt, late?.decidedAt], [null, null])
      assert.deepEqual(await changed(world), ['late_reports row 1'])
    }
  })

  test('a late fill from before it had a digest is accepted', async (world) => {
    const { executionId } = await keptAndDamaged(world, 'update late_reports set content_digest = null')
    assert.deepEqual(await kinds(world), [])
    await accept(world, executionId)
    assert.deepEqual(await kinds(world), [])
  })

  test('a late fill that was accepted beside a trade is not accepted again when the disk forgets it', async (world) => {
    const { store, acme, place, executionId } = await afterFirst(world)
    await setUser(store, acme, 'u1', 'disabled')
    for (const amount of ['9', '8']) await report(store, acme, executionId, filled(usd(amount), 'o1'))
    for (const reportId of [1, 2]) await accept(world, executionId, reportId)
    await adjustTo(world, executionId, '7')
    await damage(
      place,
      'update late_reports set accepted_at = null, decided_at = null, decision_reason = null where report_id = 2',
    )
    await assert.rejects(accept(world, executionId, 2), problem('late_fill_conflict'))
    assert.equal((await store.findExecution(executionId))?.window?.spent, usd('7'))
    assert.deepEqual(await kinds(world), ['adjustment_report'])
    await damage(place, 'update late_reports set accepted_at = 1, decided_at = 1')
    assert.deepEqual(await kinds(world), [])
    await report(store, acme, executionId, filled(usd('5'), 'o2'))
    await damage(place, "update late_reports set accepted_at = 1 where partner_order_id = 'o2'")
    assert.deepEqual(await kinds(world), ['late_report'])
  })

  test('a stop that came back of a user who is not disabled stops nothing, and is a finding', async (world) => {
    const { store, acme, place } = world
    await enrol(store, acme)
    await damage(
      place,
      `insert into stops (user_id, tenant_id, plan_id, plans_paused, executions_cancelled, begun_at)
       select user_id, tenant_id, 0, 0, 0, created_at from users`,
    )
    assert.equal((await tick(world, '60000')).executionsCreated, 1)
    assert.equal((await poll(store, acme)).length, 1)
    assert.deepEqual(each(await allPlans(store), 'status'), ['active'])
    assert.deepEqual(await kinds(world), ['user_stop'])
  })
}
