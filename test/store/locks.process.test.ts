// Several real processes on one file: none hangs, nothing fires twice, and a process that dies leaves no trace.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Tenant } from '../../src/core/partner.ts'
import { linkUser } from '../../src/core/user.ts'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import type { Started } from '../support/process.ts'
import { measure } from '../support/within.ts'
import { act } from './second-process.ts'
import { allPlans, enrol, link, populate } from './world.ts'

const HOLD_MS = 800

/** A database with a plan. */
async function withPlan(t: TestContext): Promise<{ file: string; store: Store; acme: Tenant }> {
  const file = join(temporaryFolder(t), 'tranche.db')
  const store = await openStore(file, { clock: machine.clock, create: true })
  t.after(() => store.close())
  const { acme } = await populate(store)
  await enrol(store, acme)
  return { file, store, acme }
}

const SLOWLY_MS = 20

/** Blocks this thread, as work would, but leaves the processor to the other processes. */
function blockLoop(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** Links a user with a write that holds the lock for a while. */
const linkSlowly = (store: Store, tenant: Tenant, name: string) =>
  store.changeUser(tenant, name, (seen, now) => {
    blockLoop(SLOWLY_MS)
    const request = { partnerUserId: name, consentAccepted: true, consentVersion: 'v', consentTimestamp: now }
    return linkUser(seen, request, now)
  })

test('while another process holds the write lock, the event loop turns and the write waits its turn', async (t) => {
  const { file, store, acme } = await withPlan(t)
  const held = async (user: string) => {
    const holder = act(t, 'hold', file, String(HOLD_MS))
    await holder.prints('held')
    let [turns, written, longest, last] = [0, false, 0, performance.now()]
    const write = link(store, acme, user).then(() => {
      written = true
    })
    while (!written) {
      await new Promise((resolve) => setTimeout(resolve, 1))
      const now = performance.now()
      ;[turns, longest, last] = [turns + 1, Math.max(longest, now - last), now]
      // A read needs no lock: it is answered while the write waits.
      if (turns === 3) assert.equal((await allPlans(store)).length, 1)
    }
    await write
    assert.equal(await holder.ended, 0)
    assert.ok(await store.findUser(acme, user))
    return { turns, longest }
  }
  let round = 0
  const isFine = ({ turns, longest }: { turns: number; longest: number }) =>
    turns > 20 && longest < HOLD_MS / 2
  const seen = await measure(() => held(`waiting-${round++}`), isFine)
  assert.ok(isFine(seen), `${seen.turns} turns; the loop was blocked for ${seen.longest} ms of ${HOLD_MS}`)
})

test('a process that writes without a break leaves the lock to an operator', async (t) => {
  const { file, store, acme } = await withPlan(t)
  let round = 0
  /** The number of writes before that of a started operator's command: it opens the file and writes one row. */
  const before = async (): Promise<number> => {
    const name = `operator-${round++}`
    const operator = act(t, 'create', file, name)
    let writes = 0
    const flood = Array.from({ length: 75 }, async (_, lane) => {
      for (let n = 0; !operator.hasEnded(); n++) {
        await linkSlowly(store, acme, `${name}-${lane}-${n}`)
        if (operator.out().includes('opening')) writes += 1
      }
    })
    await Promise.all(flood)
    assert.equal(await operator.ended, 0, operator.err())
    assert.ok(await store.findPartner(name))
    return writes
  }
  // A second and a half of them, and the 75 already queued when it was done.
  const isSoon = (writes: number): boolean => writes <= 75 + 75
  const writes = await measure(before, isSoon)
  assert.ok(isSoon(writes), `${writes} writes went first`)
})

test('two processes that both write without a break take turns of a few commits', async (t) => {
  const { file, store, acme } = await withPlan(t)
  let round = 0
  const waits = async () => {
    const name = `round-${round++}`
    const other = act(t, 'write', file, name)
    await other.prints(`${name}-0`)
    // The delay that an equally busy process causes on this machine without writing.
    const beside = await longestWait(other, async () => {
      for (let n = 0; n < 20; n++) {
        blockLoop(SLOWLY_MS)
        await nextTurn()
      }
    })
    const behind = await longestWait(other, () =>
      Promise.all(Array.from({ length: 40 }, (_, i) => linkSlowly(store, acme, `${name}-slow-${i}`))),
    )
    other.child.stdin.end()
    assert.equal(await other.ended, 0)
    return { beside, behind }
  }
  const isFair = ({ beside, behind }: { beside: number; behind: number }) => behind < 100 + 2 * beside
  const seen = await measure(waits, isFair)
  t.diagnostic(`${Math.round(seen.behind)} ms, and ${Math.round(seen.beside)} ms beside no writes`)
  assert.ok(isFair(seen), `the other one waited ${seen.behind} ms, ${seen.beside} ms beside no writes`)
})

/** The longest silence of a process that reports each of its writes, while `work` runs. */
async function longestWait({ out }: Started, work: () => Promise<unknown>): Promise<number> {
  let [longest, last, seen] = [0, performance.now(), out().length]
  const watch = setInterval(() => {
    const now = performance.now()
    if (out().length > seen) [seen, last] = [out().length, now]
    else longest = Math.max(longest, now - last)
  }, 1)
  await work()
  clearInterval(watch)
  return longest
}
