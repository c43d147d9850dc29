// Several connections to the same data: a write answered to one is visible to the others, a clock in doubt too, and no
// write comes between.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { TestContext } from 'node:test'
import { Worker } from 'node:worker_threads'
import { decideDispute } from '../../../src/core/clock.ts'
import { CENT } from '../../../src/core/money.ts'
import { DAY_MS, HOUR_MS, plus } from '../../../src/core/time.ts'
import { runPass } from '../../../src/engine/pass.ts'
import {
  AUDIT,
  type Contract,
  filled,
  firstTranche,
  keyFor,
  problem,
  raise,
  report,
  T0,
  type World,
} from '../world.ts'

/** The parameters of rival.ts. The places GO and DONE of `signals` are set to 1, and notified. */
export type RivalData = { backend: string; place: string; verb: 'raise' | 'lock'; signals: Int32Array }
export const GO = 0
export const DONE = 1

/** The time that a decision gives the other writer to come between. */
const CHANCE_MS = 150

/** Starts a thread that has the data open. */
async function rival(t: TestContext, { place }: World, backend: URL, verb: RivalData['verb']) {
  const signals = new Int32Array(new SharedArrayBuffer(8))
  const workerData: RivalData = { backend: backend.href, place, verb, signals }
  const thread = new Worker(new URL('./rival.ts', import.meta.url), { workerData })
  t.after(() => thread.terminate())
  assert.deepEqual(await once(thread, 'message'), ['ready'])
  const ended = once(thread, 'exit')
  const go = () => {
    Atomics.store(signals, GO, 1)
    Atomics.notify(signals, GO)
  }
  return { thread, ended, go, waitForIt: () => Atomics.wait(signals, DONE, 0, CHANCE_MS) }
}

export const connectionContract: Contract = (test) => {
  test('what was answered is there when the store is opened again', async (world) => {
    const { executionId, amount } = await firstTranche(world)
    await report(world.store, world.acme, executionId, filled(amount, 'o1'))
    world.store.close()
    world.store = await world.connect()
    const found = await world.store.findExecution(executionId)
    assert.deepEqual([found?.trade?.report.partnerOrderId, found?.window.spent], ['o1', amount])
  })

  test('a key that was revoked or used, and a partner that was disabled, are seen so at once, by whom it may be', async (world) => {
    const { store, acme, now } = world
    const other = await world.connect()
    for (const writer of [store, other]) {
      await writer.changePartner('acme', (seen) => ({ ...seen, status: 'active' }), AUDIT)
      const made = keyFor(acme)
      const { keyId } = await writer.addKey(made, AUDIT)
      const assertSeen = async (expected: object) => {
        for (const reader of [store, other]) {
          const seen = await reader.findKey(made.sha256)
          const { revokedAt, lastUsedAt } = seen?.key ?? {}
          assert.deepEqual({ revokedAt, lastUsedAt, status: seen?.partnerStatus }, expected)
        }
      }
      await assertSeen({ revokedAt: null, lastUsedAt: null, status: 'active' })
      await writer.markKeyUsed(acme, keyId)
      await assertSeen({ revokedAt: null, lastUsedAt: now(), status: 'active' })
      await writer.changeKey(keyId, (key) => ({ key: { ...key, revokedAt: now() }, successor: null }), AUDIT)
      await assertSeen({ revokedAt: now(), lastUsedAt: now(), status: 'active' })
      await writer.changePartner('acme', (seen) => ({ ...seen, status: 'disabled' }), AUDIT)
      await assertSeen({ revokedAt: now(), lastUsedAt: now(), status: 'disabled' })
    }
  })

  test('of two writers at once neither fails and neither is lost', async (world, { t, backend }) => {
    const { store } = world
    const before = (await store.findPartner('acme'))?.minTranche ?? 0n
    const other = await rival(t, world, backend, 'raise')
    let tries = 0
    await raise(store, () => {
      if (tries++ > 0) return
      other.go()
      other.waitForIt()
    })
    assert.deepEqual(await other.ended, [0])
    assert.equal((await store.findPartner('acme'))?.minTranche, before + 2n * CENT)
  })

  test('the lock of a pass keeps other processes out', async (world, { t, backend }) => {
    const other = await rival(t, world, backend, 'lock')
    const turn = await world.store.takePass()
    assert.ok(turn)
    other.go()
    assert.deepEqual(await once(other.thread, 'message'), ['refused'])
    await other.ended
    await turn.end()
  })
}

// A clock in doubt: the finding of one pass holds for every process, until it is settled.

export const clockContract: Contract = (test) => {
  test('a dispute stands until it is settled, for every connection', async (world) => {
    const { store } = world
    const other = await world.connect()
    const witness = { source: 'feed', at: plus(T0, DAY_MS) }
    const dispute = { clockAt: T0, witness }
    assert.deepEqual(await store.decideDispute((now) => decideDispute(now, witness, null)), dispute)
    for (const one of [store, other]) assert.deepEqual(await one.readClock(), { now: T0, standing: dispute })
    const silent = await other.decideDispute((now, standing) => decideDispute(now, 'silent', standing))
    assert.deepEqual(silent, dispute, 'a silent witness settles nothing')
    assert.equal(await store.decideDispute(() => null), null)
    assert.equal((await other.readClock()).standing, null)
  })

  test('a pass by a disputed clock leaves nothing but the dispute, and closes no month', async (world) => {
    const { store, machine } = world
    await firstTranche(world)
    world.advance(27 * DAY_MS)
    const before = [await store.findPlans('p1'), await store.readMarks()]
    const testimony = { source: 'feed', at: plus(T0, HOUR_MS) }
    const pass = runPass({ store, machine, observe: async () => ({ price: null, testimony }) })
    await assert.rejects(pass, problem('clock_disputed'))
    assert.deepEqual([await store.findPlans('p1'), await store.readMarks()], before)
    const january = { month: '2026-01', start: plus(T0, -4 * DAY_MS), end: plus(T0, 27 * DAY_MS) }
    assert.equal((await store.fixPeriod(january)).final, false)
  })
}
