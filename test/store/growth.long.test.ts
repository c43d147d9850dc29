// The disk space that a partner can take with one call, whatever it sends.

import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { LATE_FILLS_MAX } from '../../src/core/confirmation.ts'
import { usd } from '../../src/core/money.ts'
import { REASON_MAX } from '../../src/core/text.ts'
import { plus } from '../../src/core/time.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { temporaryFolder } from '../support/database.ts'
import {
  AUDIT,
  enrol,
  failed,
  filled,
  firstTranche,
  link,
  linkWith,
  openWorld,
  report,
  sendPlan,
  T0,
  tick,
} from './world.ts'

const KIB = 1024
const CONFIRMATIONS = 1_000
const CALLS = 200
/** The longest possible id, in characters that take the most bytes. */
const longest = (n: number): string => [...`${n}:${'𝓐'.repeat(255)}`].slice(0, 255).join('')

async function worldOnDisk(t: TestContext) {
  const file = join(temporaryFolder(t), 'tranche.db')
  const world = await openWorld(t, (_, clock) => openStore(file, { clock, create: true }))
  const size = (): number => {
    const db = new SQLite(file)
    db.pragma('wal_checkpoint(truncate)')
    db.close()
    return statSync(file).size + statSync(`${file}-wal`).size
  }
  return { ...world, size }
}

test('a thousand reports on one cancelled execution add a few kB, and are counted', async (t) => {
  const { acmeLive: acme, size, ...world } = await worldOnDisk(t)
  const { store } = world
  const { executionId } = await firstTranche({ ...world, acme })
  await sendPlan(store, acme, { status: 'cancelled' })
  const before = size()
  for (let from = 0; from < CONFIRMATIONS; from += 200) {
    await Promise.all(
      Array.from({ length: 200 }, (_, i) => {
        const order = longest(from + i)
        const said =
          i % 2 === 0 ? filled(usd('10'), order) : { ...failed(order), failureReason: 'x'.repeat(REASON_MAX) }
        return report(store, acme, executionId, said).catch(() => null)
      }),
    )
  }
  const grown = size() - before
  assert.ok(grown <= 64 * KIB, `${grown} bytes`)
  const listed = await store.listLateFills({ after: null, limit: 1_000 })
  assert.equal(listed.length, LATE_FILLS_MAX)
  assert.equal(listed[0]?.unkept, CONFIRMATIONS / 2 - LATE_FILLS_MAX)
  const [found] = (await store.findWarnings()).filter(({ kind }) => kind === 'late_fills')
  const said = /^20 reported.*; 480 more were counted and not kept, such as of exec_\w+$/
  assert.match(found?.message ?? '', said)
  assert.deepEqual(await store.findFaults(), [])
})

type World = Awaited<ReturnType<typeof worldOnDisk>>
// The bounds that docs/decisions/file.md#bounds-on-growth states.
const COSTS: Record<string, [bytesMax: number, call: (world: World, n: number) => Promise<unknown>]> = {
  'a new user': [16 * KIB, ({ store, acme }, n) => link(store, acme, longest(n), longest(n))],
  'another consent of a user': [
    8 * KIB,
    ({ store, acme }, n) => {
      const consent = { consentVersion: longest(n), consentTimestamp: plus(T0, n) }
      return linkWith(store, acme, { partnerUserId: 'u1', ...consent })
    },
  ],
  'a new plan': [8 * KIB, ({ store, acme }, n) => sendPlan(store, acme, { partnerPlanId: longest(n) })],
  'another amount of a plan': [
    KIB,
    ({ store, acme }, n) => sendPlan(store, acme, { amount: usd(`${100 + n}.00`) }),
  ],
  'a plan with executions in a sandbox that is reset': [
    8 * KIB,
    async (world, n) => {
      await enrol(world.store, world.acme, { partnerPlanId: longest(n) })
      await tick(world, '60000')
      await world.store.resetSandbox(world.acme, AUDIT)
    },
  ],
  'the same user and plan again': [32, ({ store, acme }) => enrol(store, acme)],
}

for (const [what, [bytesMax, call]] of Object.entries(COSTS)) {
  test(`${what} costs at most ${bytesMax} bytes of disk`, async (t) => {
    const world = await worldOnDisk(t)
    await enrol(world.store, world.acme)
    const before = world.size()
    for (let n = 0; n < CALLS; n++) await call(world, n)
    const each = (world.size() - before) / CALLS
    t.diagnostic(`${what}: ${Math.round(each)} bytes`)
    assert.ok(each <= bytesMax, `${each} bytes`)
  })
}
