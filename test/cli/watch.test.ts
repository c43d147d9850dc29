// status --watch: a live screen on a terminal, one status after the other elsewhere.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { suite, type TestContext, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { drawScreen, type Seen } from '../../src/cli/status/screen.ts'
import { createPaint } from '../../src/cli/terminal/paint.ts'
import { DAY_MS, type Instant, plus } from '../../src/core/instant.ts'
import { type Price, usd } from '../../src/core/money.ts'
import { filled } from '../store/copies.ts'
import { SOURCE, type Started, start } from '../support/process.ts'
import { T0 } from '../support/service.ts'

const ENTER = '\x1b[?1049h\x1b[?25l\x1b[?7l'
const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l'
const plain = (_: unknown, text: string) => text

/** Resolves once what was printed satisfies `enough`. */
async function until(started: Started, enough: (out: string) => boolean): Promise<string> {
  while (!enough(started.out())) {
    const outcome = await Promise.race([once(started.child.stdout, 'data'), started.ended])
    assert.ok(Array.isArray(outcome) || enough(started.out()), `${started.out()}${started.err()}`)
  }
  return started.out()
}

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
  assert.deepEqual(marks(large()), ['▲ last pass', '▲ due now', '▲ webhooks', '▲ unspent', '▲ log'])
  const fine = seenAt(T0, {
    recent: { passes: [tick(plus(T0, -12_000), 3)], price: null, executions: [] },
    scheduler: { latestAt: [], lastFinishedAt: plus(T0, -12_000), waitingSince: plus(T0, -DAY_MS) },
  })
  assert.deepEqual(marks(fine), ['● last pass', '● due now', '● webhooks', '● unspent', '● log'])
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
  assert.match(lines[2] ?? '', /last pass/)
})

test('colours are on a terminal, and nowhere else', () => {
  const stream = (isTTY: boolean) => Object.assign(Object.create(process.stdout), { isTTY })
  const colours = (isTTY: boolean, wanted: boolean) =>
    drawScreen(large(), { columns: 80, rows: 24, paint: createPaint(stream(isTTY), wanted), trouble: null })
      .join('')
      .includes('\x1b[')
  assert.deepEqual([colours(false, true), colours(true, false)], [false, false])
})

suite('status --watch', { concurrency: 4 }, () => {
  for (const [what, flags, one] of [
    ['JSON lines', ['--json'], /^\{"at":.*\}$/gm],
    ['statuses in words', [], /^last tick .*$/gm],
  ] as const) {
    test(`without a terminal it prints ${what}, one an interval, until it is interrupted`, async (t) => {
      const file = await filled(t)
      const argv = ['--db', file, 'status', '--watch', '--every', '1s', ...flags]
      const started = start(t, argv, { cwd: '/' })
      const out = await until(started, (text) => (text.match(one) ?? []).length >= 2)
      started.child.kill('SIGINT')
      assert.equal(await started.ended, 130)
      assert.equal(started.err(), '')
      assert.ok(!out.includes('\x1b'), 'no escapes')
      if (flags.length > 0) for (const line of out.trim().split('\n')) JSON.parse(line)
    })
  }

  test('a database that is not there ends it before the screen is touched', async (t) => {
    const started = onTerminal(t, ['--db', '/nowhere/tranche.db', 'status', '--watch'])
    assert.equal(await started.ended, 4)
    assert.match(started.out(), /There is no database/)
    assert.ok(!started.out().includes('\x1b[?'))
  })

  for (const [what, key, code] of [
    ['q', 'q', 0],
    ['Ctrl-C', '\x03', 130],
  ] as const) {
    test(`on a terminal the screen is redrawn in place, and ${what} gives the terminal back`, async (t) => {
      const started = onTerminal(t, ['--db', await filled(t), 'status', '--watch', '--every', '1s'])
      await until(started, (text) => text.split('\x1b[H').length > 2)
      started.child.stdin.write(key)
      assert.equal(await started.ended, code)
      const out = started.out()
      assert.ok(out.includes(ENTER) && out.trimEnd().endsWith(LEAVE), JSON.stringify(out.slice(-80)))
      assert.ok(out.indexOf(ENTER) < out.indexOf('\x1b[H'))
      assert.ok(out.includes('\x1b[32m') && out.includes('\x1b[36m'), 'it has colours')
      assert.match(stripVTControlCharacters(out), /latest executions/)
    })
  }

  for (const [what, argv, env] of [
    ['NO_COLOR', [], { NO_COLOR: '1' }],
    ['--no-color', ['--no-color'], {}],
  ] as const) {
    test(`with ${what} the screen moves the cursor and colours nothing`, async (t) => {
      const started = onTerminal(t, ['--db', await filled(t), ...argv, 'status', '--watch'], env)
      await until(started, (text) => text.includes('q quits'))
      started.child.stdin.write('q')
      assert.equal(await started.ended, 0)
      assert.ok(started.out().includes(ENTER))
      assert.deepEqual(
        started
          .out()
          .split('\x1b')
          .filter((part) => /^\[[\d;]*m/.test(part)),
        [],
      )
    })
  }
})

/** Runs the program on a terminal of its own. */
function onTerminal(t: TestContext, argv: readonly string[], env: Record<string, string> = {}): Started {
  const command = [...SOURCE, ...argv].map((word) => `'${word}'`).join(' ')
  return start(t, ['-qfec', command, '/dev/null'], {
    cwd: '/',
    env: { PATH: process.env.PATH ?? '', TERM: 'xterm-256color', SHELL: '/bin/sh', ...env },
    program: ['script'],
  })
}
