// Events: one for each tenant and pass, written with the executions it announces and handed out once.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { isSignature } from '../../src/webhook/signature.ts'
import { giveDigests } from '../support/database.ts'
import { PRICE, type Received, type Stage, startReceiver, startStage, WEBHOOKS } from './stage.ts'

const ANY = { slug: null, environment: null, status: null, stuck: false }
const executionsOf = async (stage: Stage, slug: string, environment: string) =>
  (await stage.store.listExecutions(ANY, { after: null, limit: 10_000 })).filter(
    ({ tenant }) => tenant.partnerSlug === slug && tenant.environment === environment,
  )
const bodyOf = ({ raw }: Received) => JSON.parse(raw.toString())

type EventRow = {
  tick_id: number
  tenant_id: number
  count: number
  earliest_execution_id: string
  claimed_at: number | null
}
function eventsIn(file: string): EventRow[] {
  const db = new Database(file, { readonly: true })
  try {
    return db
      .prepare<[], EventRow>(
        'select tick_id, tenant_id, count, earliest_execution_id, claimed_at from webhook_events order by tick_id, tenant_id',
      )
      .all()
  } finally {
    db.close()
  }
}

test('each tenant gets one event of its own, signed with its own secret', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  const tenants = [
    { slug: 'acme', environment: 'test', plans: 3 },
    { slug: 'acme', environment: 'live', plans: 1 },
    { slug: 'zeta', environment: 'live', plans: 2 },
  ] as const
  const secrets = new Map<string, string>()
  for (const { slug, environment, plans } of tenants) {
    const key = await stage.issueKey(slug, environment)
    secrets.set(
      `/${slug}/${environment}`,
      await stage.register(receiver.port, `/${slug}/${environment}`, key),
    )
    for (let plan = 0; plan < plans; plan += 1) await stage.addPlan(`u${plan}`, key)
  }
  // A tenant without a webhook, and one whose plans do not fire.
  await stage.addPlan('u1', await stage.issueKey('mute', 'test'))
  await stage.register(receiver.port, '/idle', await stage.issueKey('idle', 'test'))

  assert.deepEqual(await stage.pass(), { sent: 3, failed: 0 })
  assert.equal(receiver.received.length, 3)
  for (const { slug, environment, plans } of tenants) {
    const path = `/${slug}/${environment}`
    const seen = receiver.received.find((one) => one.path === path) ?? assert.fail(path)
    const [earliest] = (await executionsOf(stage, slug, environment))
      .map(({ executionId }) => executionId)
      .sort()
    assert.deepEqual(bodyOf(seen), {
      event: 'executions.available',
      partner_slug: slug,
      environment,
      count: plans,
      earliest_execution_id: earliest,
    })
    const signature = String(seen.headers['x-service-signature'])
    for (const [owner, secret] of secrets)
      assert.equal(isSignature(signature, secret, seen.raw), owner === path)
  }
  assert.deepEqual((await executionsOf(stage, 'mute', 'test')).length, 1)
})

test('a pass of several pages sends one event with the whole count and the first id of all', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  await stage.register(receiver.port)
  await stage.addPlan('first')
  const plans = 2_300
  copyPlan(stage.file, plans - 1)
  assert.deepEqual(await stage.pass(), { sent: 1, failed: 0 })
  const executions = await executionsOf(stage, 'acme', 'test')
  assert.equal(executions.length, plans)
  assert.equal(receiver.received.length, 1)
  const body = bodyOf(receiver.received[0] ?? assert.fail('nothing came'))
  assert.equal(body.count, plans)
  assert.equal(body.earliest_execution_id, executions.map(({ executionId }) => executionId).sort()[0])
})

/** Copies the one plan there is, with its window and its schedule: quicker than so many requests. */
function copyPlan(file: string, times: number): void {
  const db = new Database(file)
  const columnsOf = (table: string, but: string[]): string[] =>
    db
      .prepare<[string], { name: string }>('select name from pragma_table_info(?)')
      .all(table)
      .map(({ name }) => name)
      .filter((name) => !but.includes(name))
  const copy = (table: string, changed: Record<string, string>): void => {
    const kept = columnsOf(table, Object.keys(changed))
    const into = [...Object.keys(changed), ...kept].join(', ')
    const from = [...Object.values(changed), ...kept].join(', ')
    db.exec(
      `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${times})
       insert into ${table} (${into}) select ${from} from ${table}, n where plan_id = 1`,
    )
  }
  db.transaction(() => {
    db.pragma('defer_foreign_keys = on')
    copy('plans', { plan_id: '1 + i', partner_plan_id: `'copy' || i`, digest: '0' })
    copy('windows', { window_id: 'window_id + i', plan_id: '1 + i', digest: '0' })
    copy('schedules', { plan_id: '1 + i', window_id: 'window_id + i', digest: '0' })
    giveDigests(db)
  })()
  db.close()
}

test('events are handed out once, to the pass that wrote them, and those a crash left behind never', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  await stage.register(receiver.port)
  await stage.addPlan('lost')
  const lost = await stage.tick(PRICE) // and nobody is woken: as if the process had ended here
  stage.advance(60_000)
  await stage.addPlan('next')
  assert.deepEqual(await stage.pass(), { sent: 1, failed: 0 })
  stage.advance(60_000)
  assert.deepEqual(await stage.pass(), { sent: 0, failed: 0 })
  assert.deepEqual(
    receiver.received.map((one) => bodyOf(one).count),
    [1],
  )
  const [before, after] = eventsIn(stage.file)
  assert.equal(before?.tick_id, lost.passId)
  assert.equal(before?.claimed_at, null)
  assert.notEqual(after?.claimed_at, null)

  const claims = await Promise.all([1, 2, 3].map(() => stage.store.claimWakeUps(lost.passId)))
  assert.deepEqual(claims.map((claim) => claim.length).sort(), [0, 0, 1])
})

test('a partner is told of nothing while it is disabled', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  await stage.register(receiver.port)
  await stage.addPlan('u1')
  const audit = { osUser: 'test', action: 'test', subject: 'acme', detail: {} }
  await stage.store.changePartner('acme', (seen) => ({ ...seen, status: 'disabled' }), audit)
  assert.deepEqual(await stage.pass(), { sent: 0, failed: 0 })
  assert.equal(receiver.connections(), 0)
})

test('playing a payload back to the service changes nothing', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  await stage.register(receiver.port)
  await stage.addPlan('u1')
  await stage.pass()
  const { raw, headers } = receiver.received[0] ?? assert.fail('nothing came')
  const signature = { 'x-service-signature': String(headers['x-service-signature']) }
  const before = [await executionsOf(stage, 'acme', 'test'), await stage.webhook()]
  const answer = await stage.call('POST', WEBHOOKS, raw, { headers: signature })
  assert.equal(answer.status, 422)
  assert.deepEqual([await executionsOf(stage, 'acme', 'test'), await stage.webhook()], before)
})
