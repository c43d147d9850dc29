// A key that ends on PostgreSQL while its calls are under way: once that is done nothing more is written by it,
// whatever its calls have waited for.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { revoke } from '../../src/core/key.ts'
import { usd } from '../../src/core/money.ts'
import { type Caller, setPartnerStatus } from '../../src/core/partner.ts'
import { plus, SECOND_MS } from '../../src/core/time.ts'
import { issueKey } from '../../src/keys.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { openPool, type Pool } from '../../src/store/postgres/server/pool.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { startService, USER } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { AUDIT, filled, keyFor, link, poll, populate, problem, report, sendPlan, T0, tick } from './world.ts'

const LIFETIME_MS = SECOND_MS

/**
 * Two hosts on one database: one serves, on the other an operator works. Three instructions are out, two of them
 * delivered.
 */
async function openHosts(t: TestContext) {
  const url = await ownDatabase(temporaryFolder(t))
  const { machine, setClock } = machineAt(T0)
  const [store, other] = [
    await openStore(url, { clock: machine.clock, create: false }),
    await openStore(url, { clock: machine.clock, create: false }),
  ]
  const pool = openPool(url, { max: 3 })
  // A connection that a test which failed has not given back is not waited for.
  t.after(() => {
    pool.end()
    return Promise.all([store.close(), other.close()])
  })
  const { acme } = await populate(store)
  const [ending, lasting] = [keyFor(acme, { lifetimeMs: LIFETIME_MS }), keyFor(acme)]
  for (const key of [ending, lasting]) await store.addKey(key, AUDIT)
  await link(store, acme)
  for (const partnerPlanId of ['p1', 'p2', 'p3']) await sendPlan(store, acme, { partnerPlanId })
  await tick({ store, machine }, '60000')
  const [first, second] = await poll(store, acme, 2)
  assert.ok(first && second)
  return {
    ...{ store, other, pool, setClock, first, second, keyId: ending.keyId },
    caller: { ...acme, keyId: ending.keyId } as Caller,
    beside: { ...acme, keyId: lasting.keyId } as Caller,
  }
}
type Hosts = Awaited<ReturnType<typeof openHosts>>

const ends = {
  'is revoked': ({ other, keyId }: Hosts) =>
    other.changeKey(keyId, (seen, time) => ({ key: revoke(seen, time), successor: null }), AUDIT),
  'has a partner that is disabled': ({ other }: Hosts) =>
    other.changePartner('acme', (seen, now) => setPartnerStatus(seen, 'disabled', now), AUDIT),
  expires: async ({ setClock }: Hosts) => setClock(plus(T0, LIFETIME_MS)),
}

/** All that a call can write. */
const written = async (pool: Pool): Promise<unknown[]> =>
  (
    await pool.query(
      `select (select json_agg(e order by execution_id) from executions e) as executions,
         (select count(*) from trades) as trades, (select count(*) from users) as users,
         (select count(*) from plans) as plans, (select count(*) from webhooks) as webhooks`,
    )
  ).rows

const until = async (happens: () => Promise<boolean>): Promise<void> => {
  for (let looks = 0; !(await happens()); looks++) {
    assert.ok(looks < 1_000, 'it never happened')
    await sleep(10)
  }
}

/** How many wait for such a lock. */
const waiting = async (pool: Pool, where: string): Promise<number> =>
  (await pool.query(`select from pg_locks where not granted and ${where}`)).rowCount ?? 0

async function locked(t: TestContext, pool: Pool, sql: string): Promise<() => Promise<void>> {
  const holder = await pool.connect()
  await holder.query(`begin; ${sql}`)
  let isHeld = true
  const release = async () => {
    if (!isHeld) return
    isHeld = false
    await holder.query('commit')
    holder.release()
  }
  t.after(release)
  return release
}

for (const [ending, end] of Object.entries(ends))
  test(`a key that ${ending} while its calls wait for a place or a lock writes nothing any more`, async (t) => {
    if (!hasTool(t, 'postgres')) return
    const hosts = await openHosts(t)
    const { store, pool, caller, beside, first, second } = hosts
    const before = await written(pool)
    const release = await locked(t, pool, 'lock table executions in access exclusive mode')
    // As many as the tenant has places for are on their way to the gate, and the others wait for a place.
    const polls = Array.from({ length: 12 }, () => poll(store, caller))
    const others = [
      sendPlan(store, caller, { partnerPlanId: 'p4' }),
      link(store, caller, 'u2'),
      store.deleteWebhook(caller),
      report(store, caller, first.executionId, filled(usd('1'))),
    ]
    // In the same lane, by a key that goes on.
    const byOther = report(store, beside, second.executionId, filled(usd('1')))
    const outcomes = Promise.allSettled([...polls, ...others])
    const outcomeByOther = Promise.allSettled([byOther])
    await until(async () => (await waiting(pool, `locktype = 'relation'`)) > 0)
    await end(hosts)
    await release()
    const isDisabled = ending.includes('disabled')
    const isRefused = problem(isDisabled ? 'partner_disabled' : 'key_invalid')
    for (const [n, outcome] of (await outcomes).entries())
      assert.ok(outcome.status === 'rejected' && isRefused(outcome.reason), `${n}: ${inspect(outcome)}`)
    const [other] = await outcomeByOther
    if (isDisabled) {
      assert.ok(other?.status === 'rejected' && isRefused(other.reason))
      assert.deepEqual(await written(pool), before)
    } else {
      assert.ok(other?.status === 'fulfilled' && other.value.kind === 'recorded')
      const { rows } = await pool.query('select execution_id from trades')
      assert.deepEqual(rows, [{ execution_id: second.executionId }])
      assert.equal((await poll(store, beside)).length, 1, 'what was pending was handed to nobody')
    }
  })

test('a revocation waits for the writes of its key that are under way, and comes after them', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const hosts = await openHosts(t)
  const { store, pool, caller, first } = hosts
  const release = await locked(t, pool, 'select from windows for update')
  const confirmed = report(store, caller, first.executionId, filled(usd('1')))
  await until(async () => (await waiting(pool, `locktype <> 'advisory'`)) > 0)
  let isRevoked = false
  const revoked = ends['is revoked'](hosts).then(() => {
    isRevoked = true
  })
  await until(async () => (await waiting(pool, `locktype = 'advisory' and mode = 'ExclusiveLock'`)) > 0)
  // Comes later, and so behind the revocation.
  const later = sendPlan(store, caller, { partnerPlanId: 'p4' })
  const refused = assert.rejects(later, problem('key_invalid'))
  assert.equal(isRevoked, false)
  await release()
  assert.equal((await confirmed).kind, 'recorded')
  await revoked
  await refused
})

const CALLERS = 60
const CALLS_BEFORE = 120

test('a key revoked on another host in the middle of a flood writes nothing from then on', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { machine } = machineAt(T0)
  const url = await ownDatabase(temporaryFolder(t))
  const open = (): Promise<Store> => openStore(url, { clock: machine.clock, create: false })
  const [store, other] = [await open(), await open()]
  t.after(() => Promise.all([store.close(), other.close()]))
  const { acme } = await populate(store)
  const { record, secret: key } = issueKey({ tenant: acme, label: null, lifetimeMs: null }, machine)
  await store.addKey(record, AUDIT)
  const service = await startService(t, { wrap: () => store })
  const pool = openPool(url, { max: 1 })
  t.after(() => pool.end())

  let sent = 0
  let linked = 0
  const reached = Promise.withResolvers<void>()
  const flood = async () => {
    for (;;) {
      sent += 1
      const body = { ...USER, partner_user_id: `flood-${sent}` }
      const { status, headers } = await service.call('POST', '/partner/v1/users', body, { key })
      if (status !== 200) {
        assert.equal(status, 401)
        assert.equal(headers.get('www-authenticate'), 'Bearer')
        return
      }
      linked += 1
      if (linked === CALLS_BEFORE) reached.resolve()
    }
  }
  const callers = Promise.all(Array.from({ length: CALLERS }, flood))
  await reached.promise
  await other.changeKey(record.keyId, (seen, time) => ({ key: revoke(seen, time), successor: null }), AUDIT)
  const users = async () => Number((await pool.query('select count(*) as n from users')).rows[0].n)
  const then = await users()
  await callers
  assert.equal(await users(), then, 'linked after the revocation had returned')
  assert.equal(linked, then)
})
