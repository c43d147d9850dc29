// The sample partners, killed wherever it could hurt: nothing is bought twice, and nothing bought stays unconfirmed.

import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { LEASE_MS } from '../../src/core/execution.ts'
import { HOUR_MS } from '../../src/core/instant.ts'
import { LOW_PRICE, link, plan } from '../http/steps.ts'
import { isConfirm, isPoll } from './front.ts'
import {
  assertSameBooks,
  journalOf,
  openOf,
  ordersOf,
  SAMPLES,
  type Stage,
  setStage,
  until,
} from './stage.ts'

/** How many lives each partner has; PARTNER_LIVES=200 for a long look. */
const LIVES = Number(process.env.PARTNER_LIVES ?? 8)
/** The venue takes its time, so that chance finds the moments around an order. */
const ENV = { PAPER_DELAY_MS: '3', PAPER_OPEN_MS: '10', PAPER_PART: '0.2', PAPER_FAIL: '0.2' }
const SLOT_MS = 8 * HOUR_MS
const PLANS = ['a', 'b', 'c', 'd']

type Moment = 'ordered' | 'confirming' | 'confirmed' | 'any'
const MOMENTS: Moment[] = ['ordered', 'any', 'confirming', 'any', 'confirmed', 'any']

/** Runs a partner and kills it at the moment, or when it has had nothing to do for a while. */
async function live(stage: Stage, moment: Moment): Promise<void> {
  const { front } = stage
  const before = ordersOf(stage).length
  const first = front.sees(isPoll)
  const partner = stage.launch(ENV)
  const kill = async () => {
    partner.child.kill('SIGKILL')
    await partner.ended
  }
  const killed = Promise.withResolvers<void>()
  front.onCall(async (call) => {
    if (!isConfirm(call) || (moment !== 'confirming' && moment !== 'confirmed')) return 'forward'
    if (moment === 'confirming') await kill()
    else setTimeout(kill, 1)
    killed.resolve()
    return moment === 'confirming' ? 'reset' : 'lose'
  })
  await Promise.race([
    first,
    partner.ended.then((code) => assert.fail(`ended with ${code}: ${partner.err()}`)),
  ])
  if (moment === 'any') await pause(Math.random() * 200)
  else {
    const ordered = until(
      () => moment === 'ordered' && ordersOf(stage).length > before,
      () => '',
      1_000,
    )
    await Promise.race([killed.promise, ordered.catch(() => {})])
  }
  await kill()
}

/** Runs a partner until all is confirmed. */
async function finish(stage: Stage): Promise<void> {
  stage.front.onCall(() => 'forward')
  const partner = stage.launch(ENV)
  const what = () => `${JSON.stringify(journalOf(stage))} ${partner.out()}${partner.err()}`
  await until(() => openOf(stage) === 0, what)
  await until(() => journalOf(stage).every(({ answer }) => answer === 'recorded'), what)
  partner.child.kill('SIGKILL')
  await partner.ended
}

async function killOften(t: TestContext, stage: Stage): Promise<void> {
  for (const id of PLANS) {
    await link(stage.service, id)
    await plan(stage.service, id, id)
  }
  let between = 0
  for (let lives = 0; lives < LIVES; lives++) {
    // Both units of a slot fire; and what an earlier life left is delivered again.
    await stage.service.tick(LOW_PRICE)
    await live(stage, MOMENTS[lives % MOMENTS.length] ?? 'any')
    const known = new Set(
      journalOf(stage).flatMap(({ answer, report }) => (answer && report ? [report] : [])),
    )
    if (ordersOf(stage).some(({ order }) => ![...known].some((report) => report.includes(order)))) between++
    stage.service.advance(lives % 2 === 0 ? LEASE_MS : SLOT_MS)
  }
  stage.service.advance(LEASE_MS)
  await finish(stage)
  t.diagnostic(`${LIVES} kills, ${between} of them between an order and its confirmation`)
  assert.ok(
    between >= LIVES / 6,
    `only ${between} of ${LIVES} kills were between an order and its confirmation`,
  )
}

suite('a partner that is killed again and again', { concurrency: true }, () => {
  for (const sample of SAMPLES)
    test(`in ${sample.language}, agrees with its venue and with the service at the end`, async (t) => {
      const stage = await setStage(t, sample)
      await killOften(t, stage)
      assertSameBooks(stage)
      assert.deepEqual(await stage.service.store.findFaults(), [])
    })
})
