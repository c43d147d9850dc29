// The sample partners, killed wherever it could hurt: nothing is bought twice, and every purchase is confirmed.

import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { LEASE_MS } from '../../src/core/execution.ts'
import { HOUR_MS } from '../../src/core/time.ts'
import { chanceOf } from '../faults/failing.ts'
import { LOW_PRICE, link, plan } from '../http/steps.ts'
import { debianFolder, hasOwnMachine } from '../support/machines.ts'
import { hasTool } from '../support/tools.ts'
import { isConfirm, isPoll, type Move } from './front.ts'
import {
  assertSameBooks,
  journalOf,
  keptOf,
  openOf,
  ordersOf,
  ordersToKnow,
  SAMPLES,
  type Sample,
  type Stage,
  setStage,
  tradesOf,
  until,
} from './stage.ts'

/** The number of lives of each partner; PARTNER_LIVES=200 for a thorough run. */
const LIVES = Number(process.env.PARTNER_LIVES ?? 6)
/** The venue is slow, so that random kills hit the moments around an order. */
const ENV = { PAPER_DELAY_MS: '3', PAPER_OPEN_MS: '10', PAPER_PART: '0.2', PAPER_FAIL: '0.2' }
const SLOT_MS = 8 * HOUR_MS
const PLANS = ['a', 'b', 'c', 'd', 'e']

type Moment = 'intended' | 'ordered' | 'confirming' | 'confirmed' | 'any'
const MOMENTS: Moment[] = ['confirming', 'confirmed', 'any', 'any', 'intended', 'ordered', 'any', 'any']
/**
 * The first lives. The plan that each leaves half bought is then cancelled: one intended and not ordered, one whose
 * order is filled, and one whose order the venue refuses, which the service need not learn.
 */
const CANCELLED: { moment: Moment; env?: Record<string, string> }[] = [
  { moment: 'intended' },
  { moment: 'ordered', env: { PAPER_PART: '0', PAPER_FAIL: '0' } },
  { moment: 'ordered', env: { PAPER_FAIL: '1' } },
]
/** The longest wait for a moment: a random one may have nothing to do, the first ones must come. */
const MAY_COME_MS = 1_000
const MUST_COME_MS = 30_000

type Life = {
  moment: Moment
  env: Record<string, string> | undefined
  mustCome: boolean
  chance: () => number
}

/** Runs a partner and kills it at the moment. */
async function live(stage: Stage, { moment, env, mustCome, chance }: Life): Promise<void> {
  const { front } = stage
  const known = new Set(journalOf(stage).map(({ execution_id: id }) => id))
  const ordered = ordersOf(stage).length
  const polled = front.sees(isPoll)
  // The purchase stays intended until the kill, however late that comes.
  const partner = stage.launch({ ...ENV, ...env, ...(moment === 'intended' && { PAPER_DELAY_MS: '60000' }) })
  const kill = async () => {
    partner.child.kill('SIGKILL')
    await partner.ended
  }
  front.onCall(async (call) => {
    if (!isConfirm(call)) return 'forward'
    // The order stays unconfirmed until the kill.
    if (moment === 'ordered') return 'hang'
    if (!moment.startsWith('confirm')) return 'forward'
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
  const come = until(hasCome[moment], () => moment, mustCome ? MUST_COME_MS : MAY_COME_MS)
  await (mustCome ? come : come.catch(() => {}))
  await kill()
  await front.settled()
}

/** The plans of purchases begun and not confirmed, with an order or without one. */
function plansBegun(stage: Stage, withOrder: boolean): string[] {
  const ordered = new Set(ordersOf(stage).map(({ key }) => key))
  return journalOf(stage)
    .filter(({ answer, order_key: key }) => answer === null && ordered.has(key) === withOrder)
    .map(({ order_key: key }) => key.split(':')[1] ?? '')
}

async function killOften(t: TestContext, stage: Stage, chance: () => number): Promise<void> {
  for (const id of PLANS) {
    await link(stage.service, id)
    await plan(stage.service, id, id)
  }
  const cancelled = new Set<string>()
  let between = 0
  for (let lives = 0; lives < LIVES; lives++) {
    // Both units of a slot fire; and the instructions of an earlier life are delivered again.
    await stage.service.tick(LOW_PRICE)
    const cancels = CANCELLED[lives]
    const { moment, env } = cancels ?? {
      moment: MOMENTS[(lives - CANCELLED.length) % MOMENTS.length] ?? 'any',
    }
    await live(stage, { moment, env, mustCome: cancels !== undefined, chance })
    const begun = plansBegun(stage, moment !== 'intended')
    if (moment !== 'intended' && begun.length > 0) between++
    if (cancels) {
      // The cancelled instruction is never delivered again.
      const id = begun.find((plan) => !cancelled.has(plan)) ?? assert.fail(moment)
      await plan(stage.service, id, id, { status: 'cancelled' })
      cancelled.add(id)
    }
    stage.service.advance(lives % 2 === 0 ? LEASE_MS : SLOT_MS)
  }
  t.diagnostic(`${LIVES} kills, ${between} of them between an order and its confirmation`)
  assert.ok(
    between >= LIVES / 8,
    `only ${between} of ${LIVES} kills were between an order and its confirmation`,
  )
}

const BUSY: Move = { status: 503, headers: { 'x-error-code': 'database_busy' }, body: '{"detail":"Busy."}' }

/** Runs a partner until all is confirmed, on a network that loses one call in three, except answers to polls. */
async function finish(stage: Stage, chance: () => number): Promise<void> {
  stage.service.advance(LEASE_MS)
  stage.front.onCall((call) => {
    const moves: Move[] = isPoll(call) ? ['reset', BUSY] : ['reset', BUSY, 'lose']
    return moves[Math.floor(chance() * 3 * moves.length)] ?? 'forward'
  })
  const partner = stage.launch(ENV)
  const what = () => `${JSON.stringify(journalOf(stage))} ${partner.out()}${partner.err()}`
  const isKnown = () => ordersToKnow(stage).length === tradesOf(stage).length + keptOf(stage).length
  await until(() => openOf(stage) === 0 && isKnown(), what)
  partner.child.kill('SIGKILL')
  await partner.ended
}

async function agrees(t: TestContext, sample: Sample, debian?: string): Promise<void> {
  const stage = await setStage(t, sample, debian)
  const chance = chanceOf(t)
  await killOften(t, stage, chance)
  await finish(stage, chance)
  assertSameBooks(stage)
  // The first cancelled one had been intended, and not ordered; the others had been ordered.
  const [neverOrdered, ...others] = plansBegun(stage, false)
  assert.ok(neverOrdered !== undefined && others.length === 0)
  assert.ok(
    !ordersOf(stage).some(({ key }) => key.startsWith(`${neverOrdered}:`)),
    'nothing is bought for it',
  )
  assert.equal(ordersOf(stage).length - ordersToKnow(stage).length, 1, 'one bought nothing after its cancel')
  assert.deepEqual(await stage.service.store.findFaults(), [])
}

suite('a partner that is killed again and again', { concurrency: true }, () => {
  for (const sample of SAMPLES) {
    test(`in ${sample.language}, agrees with its venue and with the service at the end`, (t) =>
      agrees(t, sample))

    // Debian 12 has the oldest Node.js that the samples support.
    test(`in ${sample.language}, does so with what Debian 12 has`, async (t) => {
      if (hasOwnMachine(t) && hasTool(t, 'debootstrap')) await agrees(t, sample, await debianFolder())
    })
  }
})
