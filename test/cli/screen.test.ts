// The screen of status --watch, drawn from what was seen.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { drawScreen, type Seen } from '../../src/cli/status/watch-screen.ts'
import { createPaint } from '../../src/cli/terminal/paint.ts'
import { DAY_MS, type Instant, plus } from '../../src/core/instant.ts'
import { type Price, usd } from '../../src/core/money.ts'
import { capture } from '../support/command.ts'
import { T0 } from '../support/service.ts'

const plain = (_: unknown, text: string) => text

const seenAt = (at: Instant, more: Partial<Seen> = {}): Seen => ({
  at,
  db: '/var/lib/tranche/tranche.db',
  everyMs: 2_000,
  scheduler: { latestAt: [], lastFinishedAt: null, waitingSince: plus(at, -DAY_MS) },
  plans: { active: 1_204, paused: 12, cancelled: 3 },
  backlog: { open: 17, due: 0, oldestDueAt: null },
  sandboxes: [],
  walBytes: 0,
  status: {
    partners: { active: 2, disabled: 0 },
    unspentWindows: { count: 0, released: usd('0.00'), since: at },
    pausedWebhooks: [],
    lateFillsUndecided: 0,
  },
  recent: { passes: [], price: null, executions: [] },
  ...more,
})

const tick = (at: Instant, executionsCreated: number) => ({
  at,
  finishedAt: plus(at, 84),
  plansEvaluated: 1_204,
  executionsCreated,
})

const large = (): Seen => {
  const seen = seenAt(T0)
  return {
    ...seen,
    db: `/srv/${'deep/'.repeat(30)}tranche.db`,
    plans: { active: 9_999_999, paused: 9_999_999, cancelled: 9_999_999 },
    backlog: { open: 17, due: 1_000_000, oldestDueAt: plus(T0, -16 * 60_000) },
    walBytes: 100 * 2 ** 20,
    status: {
      ...seen.status,
      unspentWindows: { count: 123_456, released: usd('9999999999.99'), since: T0 },
      pausedWebhooks: [{ tenantId: 1, partnerSlug: 'acme', environment: 'live' }],
    },
    recent: {
      passes: Array.from({ length: 60 }, (_, n) => tick(plus(T0, (n - 70) * 60_000), n * 1_000)),
      price: { at: T0, price: 6_425_050_000_000n as Price, source: 'coinbase' },
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

for (const [columns, rows] of [
  [80, 24],
  [200, 60],
  [40, 10],
] as const) {
  test(`the screen keeps to ${columns} by ${rows}, and its last line is there`, () => {
    for (const seen of [seenAt(T0), large()]) {
      const lines = drawScreen(seen, { columns, rows, paint: plain, trouble: null })
      assert.ok(lines.length <= rows)
      assert.match(lines.at(-1) ?? '', /^q quits; looks every 2 s$/)
      if (columns < 80) continue
      assert.equal(lines.length, rows)
      assert.deepEqual(
        lines.filter((line) => line.length >= columns),
        [],
      )
    }
  })
}

test('what asks for a look is marked, by its shape as well as by its colour', () => {
  const marks = (seen: Seen) =>
    drawScreen(seen, { columns: 80, rows: 24, paint: plain, trouble: null })
      .filter((line) => /^[●▲]/.test(line))
      .map((line) => line.slice(0, 12).trimEnd())
  assert.deepEqual(marks(large()), ['▲ last tick', '▲ due now', '▲ webhooks', '▲ unspent', '▲ log'])
  const fine = seenAt(T0, {
    recent: { passes: [tick(plus(T0, -12_000), 3)], price: null, executions: [] },
    scheduler: { latestAt: [], lastFinishedAt: plus(T0, -12_000), waitingSince: plus(T0, -DAY_MS) },
  })
  assert.deepEqual(marks(fine), ['● last tick', '● due now', '● webhooks', '● unspent', '● log'])
  const [, , lastPass] = drawScreen(fine, { columns: 80, rows: 24, paint: plain, trouble: null })
  assert.match(lastPass ?? '', /12 s ago +3 fired, 1,204 plans looked at, took 84 ms$/)
})

test('a look that failed is told below, and the last one that worked stays', () => {
  const lines = drawScreen(large(), {
    columns: 80,
    rows: 24,
    paint: plain,
    trouble: 'The database is locked.',
  })
  assert.equal(lines.at(-1), 'The database is locked.')
  assert.match(lines[2] ?? '', /last tick/)
})

test('colours are on a terminal, and nowhere else', () => {
  const colours = (isTTY: boolean, wanted: boolean) =>
    drawScreen(large(), { columns: 80, rows: 24, paint: createPaint(capture(isTTY), wanted), trouble: null })
      .join('')
      .includes('\x1b[')
  assert.deepEqual([colours(true, true), colours(false, true), colours(true, false)], [true, false, false])
})
