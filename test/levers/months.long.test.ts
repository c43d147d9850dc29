// Whatever is confirmed, cancelled, accepted and adjusted, in whatever order and with whatever clock: a month that is
// over keeps every byte, the reports of a month agree, and an export neither loses nor repeats a line.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { adjust } from '../../src/core/corrections/adjustment.ts'
import { acceptLate } from '../../src/core/corrections/late-fill.ts'
import { cancelByHand } from '../../src/core/execution.ts'
import { btc, formatUsd, type Usd } from '../../src/core/money.ts'
import { periodOf } from '../../src/core/month.ts'
import { Problem } from '../../src/core/problem.ts'
import { DAY_MS, HOUR_MS, type Instant, later, monthOf, plus } from '../../src/core/time.ts'
import { assertSound, confirmPath, link, plan, poll } from '../http/steps.ts'
import { AUDIT, fill, type Service, startService } from '../support/service.ts'
import { shell } from './steps.ts'

const START = Date.UTC(2026, 0, 29) as Instant
const PLANS = ['a', 'b', 'c']

/** One thing that happens; `pick` chooses the execution, `share` the amount in percent of its reservation. */
type Step = { kind: (typeof KINDS)[number]; pick: number; share: number; hours: number }
const KINDS = [
  'time',
  'time',
  'back',
  'tick',
  'confirm',
  'cancel',
  'accept',
  'adjust',
  'adjust',
  'adjust',
  'report',
] as const
const step = fc.record({
  kind: fc.constantFrom(...KINDS),
  pick: fc.nat(30),
  share: fc.nat(110),
  hours: fc.integer({ min: 1, max: 90 }),
})

/** Refusals are part of the play; anything else is a bug. */
async function unlessRefused(work: Promise<unknown>): Promise<void> {
  await work.catch((error) => {
    if (!(error instanceof Problem)) throw error
  })
}

async function executionAt(service: Service, pick: number) {
  const filter = { slug: null, environment: null, status: null, stuck: false } as const
  const all = await service.store.listExecutions(filter, { after: null, limit: 1000 })
  return all[pick % Math.max(1, all.length)]
}

async function play(service: Service, key: string, { kind, pick, share, hours }: Step): Promise<void> {
  const { store } = service
  if (kind === 'time') return service.advance(hours * HOUR_MS)
  if (kind === 'back') return service.advance(-hours * HOUR_MS)
  if (kind === 'tick') {
    await service.tick('60000')
    await poll(service, { key })
    return
  }
  if (kind === 'report') {
    await store.fixPeriod(periodOf(monthOf(service.now())))
    return
  }
  const seen = await executionAt(service, pick)
  if (!seen) return
  const { executionId, amount } = seen
  const part = ((amount * BigInt(share)) / 100n) as Usd
  if (kind === 'confirm') {
    const body = fill(`o-${executionId}`, formatUsd(part))
    await service.call('POST', confirmPath(executionId), body, { key })
  } else if (kind === 'cancel') {
    await unlessRefused(store.cancelExecution(executionId, (at, now) => cancelByHand(at, 'gone', now), AUDIT))
  } else if (kind === 'accept') {
    await unlessRefused(store.acceptLateFill({ executionId, reportId: null }, acceptLate, () => AUDIT))
  } else {
    const right = { usd: part, btc: btc(share === 0 ? '0' : `0.${1000 + share}`), reason: 'wrong' }
    await unlessRefused(
      store.adjustTrade(
        executionId,
        (at, now) => adjust(at, right, now),
        () => AUDIT,
      ),
    )
  }
}

const reportOf = (service: Service, month: string, report: string): Promise<string> =>
  shell(service, ['billing', 'export', '--month', month, '--report', report])

const everyReport = async (service: Service, month: string): Promise<string> => {
  const parts = []
  for (const report of ['summary', 'users', 'trades']) parts.push(await reportOf(service, month, report))
  return parts.join('\n')
}

test('a closed month never changes, and the reports of every month agree', async (t) => {
  let adjusted = 0
  let months = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 25, maxLength: 45 }), async (steps) => {
      const service = await startService(t)
      service.setClock(START)
      const key = await service.issueKey('acme', 'live')
      for (const id of PLANS) {
        await link(service, id, { key })
        await plan(service, id, id, {}, { key })
      }
      const closed = new Map<string, string>()
      let latest = START
      for (const one of steps) {
        await play(service, key, one)
        latest = later(latest, service.now())
        for (const month of ['2026-01', '2026-02'])
          if (latest >= periodOf(month).end && !closed.has(month) && service.now() >= periodOf(month).end) {
            await service.tick('60000')
            closed.set(month, await everyReport(service, month))
          }
      }
      months += closed.size
      service.setClock(plus(latest, 40 * DAY_MS))
      for (const [month, before] of closed) assert.equal(await everyReport(service, month), before, month)
      for (const month of ['2026-01', '2026-02', '2026-03', '2026-04']) {
        const proof = JSON.parse(await shell(service, ['--json', 'billing', 'reconcile', '--month', month]))
        assert.deepEqual([proof.ok, proof.findings], [true, []], month)
        adjusted += (await reportOf(service, month, 'trades')).split(',adjustment,').length - 1
      }
      await assertSound(service)
    }),
    { numRuns: 5, seed: 20_260, endOnFailure: true },
  )
  assert.ok(adjusted > 3 && months > 3, `the play adjusts fills and ends months (${adjusted}, ${months})`)
})
