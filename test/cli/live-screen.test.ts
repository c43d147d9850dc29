// The screen of status --watch, drawn from given readings.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { drawScreen, type StatusView } from '../../src/cli/service/status-screen.ts'
import { finding, type PartnerVitals } from '../../src/core/findings.ts'
import { type Price, usd } from '../../src/core/money.ts'
import { DAY_MS, type Instant, plus } from '../../src/core/time.ts'
import { T0 } from '../support/service.ts'

const plain = (_: unknown, text: string) => text

const NO_PLANS = { active: 0, paused: 0, cancelled: 0 }
const NOTHING_OPEN = { open: 0, due: 0, oldestDueAt: null }

const partner: PartnerVitals = {
  tenant: { tenantId: 1, partnerSlug: 'acme', environment: 'live' },
  status: 'active',
  held: false,
  polledAt: T0,
  confirmedAt: T0,
  due: 0,
  oldestDueAt: null,
  stuck: null,
  orders: { filled: 20, failed: 0, newestFailed: false, commonestReason: null },
  plansSince: T0,
  webhook: null,
  lateFills: null,
}

const seenAt = (at: Instant, vitals: Partial<StatusView['vitals']> = {}): StatusView => ({
  at,
  db: '/var/lib/tranche/tranche.db',
  self: 'tranche',
  everyMs: 2_000,
  vitals: {
    scheduler: { latestAt: [], lastFinishedAt: plus(at, -12_000), waitingSince: plus(at, -DAY_MS) },
    dispute: null,
    frozen: null,
    feed: { name: 'median', askedAt: at, down: null },
    price: { at, price: 6_425_050_000_000n as Price, source: 'median' },
    partners: [partner],
    unspent: [],
    earlyFills: [],
    results: [],
    also: [],
    backupGone: null,
    fedAt: null,
    disk: {
      folder: '/var/lib/tranche',
      freeBytes: 20 * 2 ** 30,
      totalBytes: 40 * 2 ** 30,
      dayGrowthBytes: 0,
    },
    ...vitals,
  },
  stock: {
    plans: { live: { active: 1_204, paused: 12, cancelled: 3 }, test: NO_PLANS },
    plansSince: new Map(),
    unspent: [],
  },
  backlog: { live: { open: 17, due: 0, oldestDueAt: null }, test: NOTHING_OPEN },
  sandboxes: [],
  walBytes: 0,
  recent: { passes: [tick(plus(at, -12_000), 3)], executions: [] },
})

const tick = (at: Instant, executionsCreated: number) => ({
  at,
  finishedAt: plus(at, 84),
  plansEvaluated: 1_204,
  executionsCreated,
})

const HUGE = { active: 9_999_999, paused: 9_999_999, cancelled: 9_999_999 }
const DEEP = `/srv/${'deep/'.repeat(30)}`
const oldestDueAt = plus(T0, -16 * 60_000)

const large = (): StatusView => {
  const dayAgo = plus(T0, -DAY_MS)
  const commonestReason = 'insufficient funds '.repeat(20)
  const seen = seenAt(T0, {
    scheduler: { latestAt: [], lastFinishedAt: null, waitingSince: dayAgo },
    also: [finding({ kind: 'wal_large', subject: 'a-wal', message: 'is large', next: ['lsof', 'a-wal'] })],
    feed: { name: 'median', askedAt: T0, down: { since: dayAgo, reason: 'no answer. '.repeat(30) } },
    partners: Array.from({ length: 3 }, () => ({
      ...partner,
      polledAt: dayAgo,
      due: 1_000_000,
      oldestDueAt,
      orders: { filled: 0, failed: 1_000_000, newestFailed: true, commonestReason },
      webhook: { paused: true, failures: 10, lastReason: null, lastDeliveredAt: null },
    })),
    unspent: [
      {
        tenant: partner.tenant,
        windows: 123_456,
        released: usd('9999999999.99'),
        worst: { partnerPlanId: 'p'.repeat(255), released: usd('1.00') },
      },
    ],
    disk: { folder: DEEP, freeBytes: 0, totalBytes: 2 ** 40, dayGrowthBytes: 2 ** 30 },
  })
  return {
    ...seen,
    db: `${DEEP}tranche.db`,
    stock: { ...seen.stock, plans: { live: HUGE, test: HUGE } },
    backlog: { live: { open: 17, due: 1_000_000, oldestDueAt }, test: NOTHING_OPEN },
    walBytes: 100 * 2 ** 20,
    recent: {
      passes: Array.from({ length: 60 }, (_, n) => tick(plus(T0, (n - 70) * 60_000), n * 1_000)),
      executions: Array.from({ length: 40 }, (_, n) => ({
        tenant: 'a-partner-with-a-very-long-name-indeed-and-more-of-it live',
        partnerPlanId: 'p'.repeat(255),
        amount: usd('1000000.00'),
        status: n % 2 ? ('filled' as const) : ('pending' as const),
        createdAt: plus(T0, -n * 1_000),
      })),
    },
  }
}

test('the screen keeps to its columns and rows, and its last line is there', () => {
  for (const [columns, rows] of [
    [80, 24],
    [200, 60],
    [40, 10],
  ] as const)
    for (const seen of [seenAt(T0), large()]) {
      const lines = drawScreen(seen, { columns, rows, paint: plain, trouble: null })
      assert.ok(lines.length <= rows)
      assert.match(lines.at(-1) ?? '', /^q quits; looks every 2 s$/)
      if (columns < 80) continue
      assert.equal(lines.length, rows)
      assert.ok(lines.every((line) => line.length < columns))
    }
})

test('what asks for a look is marked, by its shape as well as by its colour', () => {
  const lines = (seen: StatusView) => drawScreen(seen, { columns: 80, rows: 40, paint: plain, trouble: null })
  const lights = ['last tick', 'price', 'due now', 'orders', 'webhooks', 'unspent', 'log', 'disk']
  const marks = (seen: StatusView, glyph: string) =>
    lights.filter((name) => lines(seen).some((line) => line.startsWith(`${glyph} ${name.padEnd(11)}`)))
  assert.deepEqual(marks(large(), '▲'), lights)
  assert.deepEqual(marks(seenAt(T0), '●'), lights)
  assert.ok(!lines(seenAt(T0)).some((line) => line.startsWith('▲')))
  const [, , lastPass] = lines(seenAt(T0))
  assert.match(lastPass ?? '', /12 s ago +3 fired, 1,204 plans looked at, took 84 ms$/)
  // An interrupted tick does not count as the last one: readiness and the alarms go by the last that ended.
  const seen = seenAt(T0)
  const cutOff = { ...tick(plus(T0, -5_000), 0), finishedAt: null }
  const recent = { ...seen.recent, passes: [...seen.recent.passes, cutOff] }
  const [, , afterCut] = lines({ ...seen, recent })
  assert.match(afterCut ?? '', /12 s ago +a newer one, 5 s ago, has not ended$/)
  const at = plus(T0, -2 * DAY_MS)
  const old = seenAt(T0, { fedAt: at, price: { at, price: 1n as Price, source: 'median' } })
  assert.deepEqual(marks(old, '▲'), ['price'])
  const webhook = { paused: false, failures: 9, lastReason: null, lastDeliveredAt: null }
  assert.deepEqual(marks(seenAt(T0, { partners: [{ ...partner, webhook }] }), '▲'), ['webhooks'])
  assert.ok(!lines({ ...seen, walBytes: null }).some((line) => line.includes('write-ahead log')))
  const none = { ...seenAt(T0, { feed: null, price: null }) }
  assert.ok(lines(none).some((line) => /^ {2}price +none +the schedule is a clock$/.test(line)))
})

test('what is found is told with the command to run next, and how much more there is', () => {
  const lines = drawScreen(large(), { columns: 100, rows: 30, paint: plain, trouble: null })
  const first = lines.findIndex((line) => line.startsWith('▲ ticks_stopped scheduler: no tick has ever'))
  assert.ok(first > 0, lines.join('\n'))
  assert.equal(lines[first + 1], '  > tranche tick')
  // The urgent findings come first, so the ones that can wait until the morning are among those only counted.
  assert.match(lines[first + 2] ?? '', /^▲ disk_low \/srv\/deep/)
  assert.ok(lines.some((line) => /^ {2}> df -h \/srv\/deep/.test(line)))
  assert.ok(lines.some((line) => /^ {2}\d+ more warnings: tranche check$/.test(line)))
})

test('on a small screen what is found comes first, whole, and its command can be pasted', () => {
  const folder = `/srv/${'a very long name/'.repeat(6)}`
  const disk = { folder, freeBytes: 1, totalBytes: 40 * 2 ** 30, dayGrowthBytes: 0 }
  const lines = drawScreen(seenAt(T0, { disk }), { columns: 80, rows: 24, paint: plain, trouble: null })
  assert.match(lines[2] ?? '', /^▲ disk_low /)
  const until = lines.indexOf('')
  const found = lines.slice(2, until)
  assert.ok(found.every((line) => line.length < 80))
  const at = found.findIndex((line) => line.startsWith('  > '))
  assert.doesNotMatch(found.slice(0, at).join(' '), /…/)
  const command = found.slice(at).map((line) => line.replace(/^ {2}(> | {2})/, ''))
  assert.equal(command.join('\n').replaceAll(' \\\n', ' '), `df -h '${folder}'`)
})

test('a look that failed is told below, and the last one that worked stays', () => {
  const screen = { columns: 80, rows: 24, paint: plain, trouble: 'The database is locked.' }
  const lines = drawScreen(large(), screen)
  assert.equal(lines.at(-1), 'The database is locked.')
  assert.match(lines[2] ?? '', /^▲ ticks_stopped/)
})
