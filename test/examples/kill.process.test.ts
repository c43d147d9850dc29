// The sample partners, killed wherever it could hurt: nothing is bought twice, and nothing bought stays unconfirmed.

import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { LEASE_MS } from '../../src/core/execution.ts'
import { HOUR_MS } from '../../src/core/instant.ts'
import { chanceOf } from '../faults/chance.ts'
import { LOW_PRICE, link, plan } from '../http/steps.ts'
import { isConfirm, isPoll } from './front.ts'
import {
  assertSameBooks,
  journalOf,
  keptOf,
  openOf,
  ordersOf,
  SAMPLES,
  type Stage,
  setStage,
  tradesOf,
  until,
} from './stage.ts'

/** How many lives each partner has; PARTNER_LIVES=200 for a long look. */
const LIVES = Number(process.env.PARTNER_LIVES ?? 6)
/** The venue takes its time, so that chance finds the moments around an order. */
const ENV = { PAPER_DELAY_MS: '3', PAPER_OPEN_MS: '10', PAPER_PART: '0.2', PAPER_FAIL: '0.4' }
const SLOT_MS = 8 * HOUR_MS
const PLANS = ['a', 'b', 'c', 'd']

type Moment = 'intended' | 'ordered' | 'confirming' | 'confirmed' | 'any'
const MOMENTS: Moment[] = ['intended', 'ordered', 'any', 'confirming', 'any', 'confirmed', 'any', 'any']

/** Runs a partner and kills it at the moment, or when that did not come for a second. */
async function live(stage: Stage, moment: Moment, chance: () => number): Promise<void> {
  const { front } = stage
  const known = new Set(journalOf(stage).map(({ execution_id: id }) => id))
  const ordered = ordersOf(stage).length
  const polled = front.sees(isPoll)
  const partner = stage.launch(moment === 'intended' ? { ...ENV, PAPER_DELAY_MS: '200' } : ENV)
  const kill = async () => {
    partner.child.kill('SIGKILL')
    await partner.ended
  }
  front.onCall(async (call) => {
    if (!isConfirm(call) || !moment.startsWith('confirm')) return 'forward'
    if (moment === 'confirming') await kill()
    else setTimeout(kill, 1)
    return moment === 'confirming' ? 'reset' : 'lose'
  })
  await Promise.race([
    polled,
    partner.ended.then((code) => assert.fail(`ended with ${code}: ${partner.err()}`)),
  ])
  const hasCome: Record<Moment, () => boolean> = {
    intended: () => journalOf(stage).some(({ execution_id: id }) => !known.has(id)),
    ordered: () => ordersOf(stage).length > ordered,
    confirming: partner.hasEnded,
    confirmed: partner.hasEnded,
    any: () => true,
  }
  if (moment === 'any') await pause(chance() * 200)
  await until(hasCome[moment], () => moment, 1_000).catch(() => {})
  await kill()
}

/** The plans of what was begun and not confirmed, with an order or without one. */
function plansBegun(stage: Stage, withOrder: boolean): string[] {
  const ordered = new Set(ordersOf(stage).map(({ key }) => key))
  return journalOf(stage)
    .filter(({ answer, idempotency_key: key }) => answer === null && ordered.has(key) === withOrder)
    .map(({ idempotency_key: key }) => key.split(':')[0] ?? '')
}

async function killOften(t: TestContext, stage: Stage): Promise<void> {
  for (const id of PLANS) {
    await link(stage.service, id)
    await plan(stage.service, id, id)
  }
  const chance = chanceOf(t)
  let between = 0
  for (let lives = 0; lives < LIVES; lives++) {
    // Both units of a slot fire; and what an earlier life left is delivered again.
    await stage.service.tick(LOW_PRICE)
    const moment = MOMENTS[lives % MOMENTS.length] ?? 'any'
    await live(stage, moment, chance)
    const begun = plansBegun(stage, moment !== 'intended')
    if (moment !== 'intended' && begun.length > 0) between++
    // What is cancelled now is never delivered again.
    if (lives < 2)
      await plan(stage.service, begun[0] ?? assert.fail(moment), begun[0] ?? '', { status: 'cancelled' })
    stage.service.advance(lives % 2 === 0 ? LEASE_MS : SLOT_MS)
  }
  t.diagnostic(`${LIVES} kills, ${between} of them between an order and its confirmation`)
  assert.ok(
    between >= LIVES / 8,
    `only ${between} of ${LIVES} kills were between an order and its confirmation`,
  )
}

/** Runs a partner until all is confirmed. */
async function finish(stage: Stage): Promise<void> {
  stage.service.advance(LEASE_MS)
  stage.front.onCall(() => 'forward')
  const partner = stage.launch(ENV)
  const what = () => `${JSON.stringify(journalOf(stage))} ${partner.out()}${partner.err()}`
  const isKnown = () => ordersOf(stage).length === tradesOf(stage).length + keptOf(stage).length
  await until(() => openOf(stage) === 0 && isKnown(), what, 15_000)
  partner.child.kill('SIGKILL')
  await partner.ended
}

suite('a partner that is killed again and again', { concurrency: true }, () => {
  for (const sample of SAMPLES)
    test(`in ${sample.language}, agrees with its venue and with the service at the end`, async (t) => {
      const stage = await setStage(t, sample)
      await killOften(t, stage)
      await finish(stage)
      assertSameBooks(stage)
      // The first that was cancelled had been meant, and not ordered; the second had been ordered.
      const [neverOrdered, ...others] = plansBegun(stage, false)
      assert.ok(neverOrdered !== undefined && others.length === 0)
      assert.ok(
        !ordersOf(stage).some(({ key }) => key.startsWith(`${neverOrdered}:`)),
        'nothing is bought for it',
      )
      assert.deepEqual(await stage.service.store.findFaults(), [])
    })
})
