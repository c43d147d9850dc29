// Two hosts that do the same thing at the same moment: neither fails of the other, and nothing is lost or doubled.

import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { linkUser, type UserRequest } from '../../../src/core/user.ts'
import { noteAttempt, register } from '../../../src/core/webhook.ts'
import type { Store } from '../../../src/store/store.ts'
import {
  AUDIT,
  allPlans,
  type Contract,
  keyFor,
  link,
  openWorld,
  problem,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'

/** How often a race is run: the hosts do not always meet. */
const ROUNDS = 10
const rounds = Array.from({ length: ROUNDS }, (_, round) => round)

type Hosts = { here: Store; there: Store }
async function hosts(world: World): Promise<Hosts> {
  return { here: world.store, there: await world.connect() }
}

/** What a host did, or the code of what it was refused for. Anything else that went wrong fails the test. */
async function outcome<T>(work: Promise<T>, ...codes: string[]): Promise<T | string> {
  try {
    return await work
  } catch (error) {
    const code = codes.find((one) => problem(one)(error))
    if (code === undefined) throw error
    return code
  }
}

const linkWith = (store: Store, { acme }: World, request: Partial<UserRequest> & { partnerUserId: string }) =>
  store.changeUser(acme, request.partnerUserId, (seen, now) =>
    linkUser(seen, { consentAccepted: true, consentVersion: 'v1', consentTimestamp: T0, ...request }, now),
  )

export const raceContract: Contract = {
  'of two who add the same partner one succeeds, and the partner has its two tenants': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const before = (await here.listAudit({ after: null, limit: 1_000 })).length
    for (const round of rounds) {
      const partner = { partnerSlug: `p-${round}`, name: 'new' }
      const ends = await Promise.all(
        [here, there].map((store) => outcome(store.addPartner(partner, AUDIT), 'partner_exists')),
      )
      assert.equal(ends.filter((end) => end === 'partner_exists').length, 1)
      const filter = { slug: partner.partnerSlug, environment: null }
      const tenants = await here.listTenants(filter, null)
      assert.deepEqual(tenants.map(({ environment }) => environment).sort(), ['live', 'test'])
    }
    assert.equal((await here.listAudit({ after: null, limit: 1_000 })).length, before + ROUNDS)
  },

  'who links a user at the same time as another keeps what the other said': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    for (const round of rounds) {
      const partnerUserId = `u-${round}`
      await Promise.all([
        linkWith(here, world, { partnerUserId, email: 'a@example.org' }),
        linkWith(there, world, { partnerUserId, authProvider: 'passkey', consentVersion: 'v2' }),
      ])
      const user = await here.findUser(world.acme, partnerUserId)
      assert.deepEqual([user?.email, user?.authProvider], ['a@example.org', 'passkey'])
      assert.deepEqual(user?.consents.map(({ version }) => version).sort(), ['v1', 'v2'])
      await Promise.all([
        linkWith(here, world, { partnerUserId, email: 'b@example.org' }),
        linkWith(there, world, { partnerUserId, authProvider: 'google' }),
      ])
      const renewed = await there.findUser(world.acme, partnerUserId)
      assert.deepEqual([renewed?.email, renewed?.authProvider], ['b@example.org', 'google'])
    }
    assert.equal((await here.listUsers(world.acme, { after: null, limit: 100 })).length, ROUNDS)
  },

  'a key that is revoked while it is used stays revoked, and is seen so from then on': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    for (const _ of rounds) {
      const made = keyFor(world.acme)
      const { keyId } = await here.addKey(made, AUDIT)
      let revoked = false
      const use = async (store: Store) => {
        for (let last = false; !last; ) {
          last = revoked
          const seen = await store.findKey(made.sha256)
          if (last) assert.equal(seen?.key.revokedAt, world.now())
          await store.markKeyUsed(world.acme, keyId)
        }
      }
      const revoke = async () => {
        await here.changeKey(
          keyId,
          (key, { clock }) => ({ key: { ...key, revokedAt: clock }, successor: null }),
          AUDIT,
        )
        revoked = true
      }
      await Promise.all([use(here), use(there), use(there), revoke()])
      const seen = await there.findKey(made.sha256)
      assert.deepEqual([seen?.key.revokedAt, seen?.key.lastUsedAt], [world.now(), world.now()])
    }
  },

  'a key is rotated once': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const taken = new Error('rotated already')
    for (const _ of rounds) {
      const { keyId } = await here.addKey(keyFor(world.acme), AUDIT)
      const rotate = (store: Store) => {
        const successor = keyFor(world.acme)
        return store.changeKey(
          keyId,
          (key, { isRotated }) => {
            if (isRotated) throw taken
            return { key, successor }
          },
          { ...AUDIT, action: 'key.rotate', subject: keyId },
        )
      }
      const ends = await Promise.allSettled([rotate(here), rotate(there)])
      const refused = ends.filter((end) => end.status === 'rejected')
      assert.deepEqual(
        refused.map(({ reason }) => reason),
        [taken],
      )
    }
    assert.equal((await here.listKeys('acme')).length, 2 * ROUNDS)
  },

  'who follows the audit log while others write misses no entry': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const read = (after: number) => here.listAudit({ after, limit: 1_000 })
    const followed = await read(0)
    let written = false
    const follow = async () => {
      for (let last = false; !last; ) {
        last = written
        followed.push(...(await read(followed.at(-1)?.auditId ?? 0)))
        await setImmediate()
      }
    }
    const write = async () => {
      for (const _ of rounds) {
        const stores = [here, there, here, there, here, there]
        await Promise.all(stores.map((store) => store.addKey(keyFor(world.acme), AUDIT)))
      }
      written = true
    }
    await Promise.all([follow(), write()])
    assert.deepEqual(followed, await read(0))
  },

  'two who set a tier decide one after the other': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const [growth] = await here.listTiers()
    assert.ok(growth)
    const raise = (store: Store, fromMonth: string) =>
      store.putTier(
        (versions) => {
          const last = versions.findLast((one) => one.fromMonth === fromMonth) ?? growth
          return { ...last, fromMonth, rateBps: last.rateBps + 1 }
        },
        () => AUDIT,
      )
    for (const round of rounds) {
      const month = `2027-${String(round + 1).padStart(2, '0')}`
      await Promise.all([raise(here, month), raise(there, month)])
      const [set] = (await here.listTiers()).filter(({ fromMonth }) => fromMonth === month)
      assert.equal(set?.rateBps, growth.rateBps + 2)
    }
  },

  'no plan that is written during a disable is active after it': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const { acme } = world
    for (const round of rounds) {
      const partnerUserId = `u-${round}`
      const plan = (id: number) => ({ partnerUserId, partnerPlanId: `${partnerUserId}-${id}` })
      await link(here, acme, partnerUserId)
      await Promise.all([0, 1, 2].map((id) => sendPlan(here, acme, plan(id))))
      const writes = [0, 1, 2, 3, 4, 5].map((id) =>
        outcome(
          sendPlan(id % 2 === 0 ? here : there, acme, { ...plan(id), status: 'active' }),
          'user_not_linked',
        ),
      )
      await Promise.all([...writes, setUser(there, acme, partnerUserId, 'disabled')])
    }
    const plans = await allPlans(here)
    assert.ok(plans.length >= 3 * ROUNDS)
    assert.deepEqual(
      plans.filter(({ status }) => status !== 'paused'),
      [],
    )
    assert.equal((await tick(world, '60000')).plansEvaluated, 0)
    assert.deepEqual(await here.findFaults(), [])
  },

  'a disable and a pass at the same time leave nothing open of the user': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const { acme } = world
    for (const round of [0, 1, 2]) {
      const partnerUserId = `u-${round}`
      await link(here, acme, partnerUserId)
      await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          sendPlan(here, acme, { partnerUserId, partnerPlanId: `${partnerUserId}-${i}` }),
        ),
      )
      world.advance(60_000)
      await Promise.all([tick(world, '60000'), setUser(there, acme, partnerUserId, 'disabled')])
      assert.deepEqual((await here.deliverDue(acme, 500, (one) => one)).executions, [])
      assert.deepEqual(await here.findFaults(), [])
    }
  },

  'two disables at once come to the same, and one of them counts the plans': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const { acme } = world
    for (const round of rounds) {
      const partnerUserId = `u-${round}`
      await link(here, acme, partnerUserId)
      await sendPlan(here, acme, { partnerUserId, partnerPlanId: partnerUserId })
      const ends = await Promise.all(
        [here, there].map((store) => setUser(store, acme, partnerUserId, 'disabled')),
      )
      assert.deepEqual(ends.map(({ plansPaused }) => plansPaused).sort(), [0, 1])
    }
  },

  'a hold reaches every plan that is written at the same time': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const { acme } = world
    await link(here, acme)
    const hold = (held: boolean) => here.changePartner('acme', (seen) => ({ ...seen, held }), AUDIT)
    for (const round of rounds) {
      await hold(false)
      const plans = [0, 1, 2].map((id) => sendPlan(there, acme, { partnerPlanId: `p-${round}-${id}` }))
      await Promise.all([...plans, hold(true)])
      world.advance(60_000)
      assert.equal((await tick(world, '60000')).plansEvaluated, 0)
      assert.deepEqual(await here.findFaults(), [])
    }
    await hold(false)
    assert.equal((await tick(world, '60000')).plansEvaluated, 3 * ROUNDS)
  },

  'what attempts came to is counted, no matter who made them': async (t, open) => {
    const world = await openWorld(t, open)
    const { here, there } = await hosts(world)
    const { acme } = world
    const webhook = await here.changeWebhook(acme, (seen, now) =>
      register(seen, 'https://a.example/', 's', now),
    )
    const attempt = (store: Store) =>
      store.noteAttempt(acme, webhook, (seen, now) =>
        noteAttempt(seen, { statusCode: 500, reason: 'HTTP 500' }, now),
      )
    await Promise.all(rounds.flatMap(() => [attempt(here), attempt(there)]))
    assert.equal((await here.findWebhook(acme))?.consecutiveFailures, 2 * ROUNDS)
    const replaced = (store: Store, secret: string) =>
      store.changeWebhook(acme, (seen, now) => register(seen, 'https://b.example/', secret, now))
    await Promise.all([attempt(here), replaced(there, 'new'), attempt(here)])
    const now = await here.findWebhook(acme)
    assert.deepEqual([now?.secret, now?.consecutiveFailures], ['new', 0])
    assert.equal(now?.createdAt, webhook.createdAt)
  },
}
