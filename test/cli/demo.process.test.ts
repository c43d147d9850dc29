// demo as a newcomer runs it: in a process of its own, against a real file, over real HTTP.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { suite, test } from 'node:test'
import { nextCommands, showAccount } from '../../src/cli/demo/show.ts'
import { createPaint } from '../../src/cli/terminal.ts'
import { TRIGGERS } from '../../src/core/execution.ts'
import { formatUsd, type Usd, usd, ZERO_USD } from '../../src/core/money.ts'
import { CACHE, EXECUTABLE } from '../support/process.ts'
import { runHere } from '../support/service.ts'
import { folder, openOnce, printedBy, startIn, startInJson } from './demo-runs.ts'

/** Prevents a hung process from hanging the suite: several times the duration on a slow machine. */
const KILL_AFTER_MS = 120_000
const WIDTH_MAX = 80

const inJson = startInJson()
const readPrinted = () => printedBy(inJson)

const total = (amounts: readonly string[]): string =>
  formatUsd(amounts.reduce((sum, amount) => (sum + usd(amount)) as Usd, ZERO_USD))

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0)

suite('demo', { concurrency: true }, () => {
  test('its account adds up, whichever way one adds', async () => {
    const account = await readPrinted()
    const windows = account.plans.flatMap((plan) => plan.windows)
    const { partner, tranches, ledger } = account
    assert.equal(ledger.ok, true)
    assert.deepEqual(ledger.faults, [])
    assert.equal(total(windows.map(({ spent_usd }) => spent_usd)), ledger.spent_usd)
    assert.equal(ledger.partner_book_usd, ledger.spent_usd)
    assert.equal(ledger.partner_book_btc, ledger.bought_btc)
    assert.equal(ledger.reserved_usd, '0.00')
    for (const { budget_usd, spent_usd, left_usd, left_because } of windows) {
      assert.equal(total([spent_usd, left_usd]), total([budget_usd]))
      assert.equal(left_because === null, left_usd === '0.00')
    }

    assert.equal(windows.length, ledger.windows)
    assert.equal(sum(windows.map((window) => window.tranches)), ledger.executions)
    assert.equal(sum(Object.values(tranches.by_trigger)), ledger.executions)
    assert.equal(sum(Object.values(tranches.by_status)), ledger.executions)
    assert.equal(partner.filled + partner.partial + partner.failed, ledger.trades)
    assert.equal(ledger.executions, ledger.trades + partner.cancelled_by_service)
    assert.equal(partner.filled, tranches.by_status.filled)
    assert.equal(partner.partial, tranches.by_status.partial)
    assert.equal(partner.failed, tranches.by_status.failed)
  })

  test('it tells of everything that can happen to a tranche', async () => {
    const { plans, partner, tranches, scheduler } = await readPrinted()
    for (const trigger of TRIGGERS) assert.ok(tranches.by_trigger[trigger] > 0, trigger)
    const { redelivered, silent, replayed, refused_late, cancelled_by_service } = partner
    assert.ok(partner.partial > 0 && partner.failed > 0 && replayed > 0 && redelivered > 0)
    assert.ok(redelivered <= silent)
    assert.equal(refused_late, 1)
    assert.equal(cancelled_by_service, 2)
    assert.ok(scheduler.passes_missed > 0 && scheduler.passes_without_price > 0)

    const statuses = Object.fromEntries(plans.map((plan) => [plan.partner_plan_id, plan.status]))
    assert.equal(statuses['eva-2weeks'], 'cancelled')
    assert.equal(statuses['dan-week'], 'paused')
    const windowsOf = (name: string) => plans.find((plan) => plan.partner_plan_id === name)?.windows ?? []
    assert.equal(windowsOf('ana-daily').length, 28)
    assert.equal(windowsOf('ana-week').length, 4)
    assert.equal(windowsOf('ben-2weeks').length, 2)
    // A plan under the smallest tranche buys in one piece; more than one only after a refund.
    assert.ok(windowsOf('chloe-tiny').some((window) => window.tranches === 1))
    assert.ok(windowsOf('ana-daily').every((window) => window.tranches > 1))
  })

  test('its words fit a terminal and promise nothing', async () => {
    const paint = createPaint(new PassThrough(), true)
    const words = await showAccount({ ...(await readPrinted()), database: null }, paint)
    for (const line of words.split('\n')) {
      // A crontab has no continuation lines, and its paths have any length.
      if (!line.startsWith('* * * * *')) assert.ok(line.length <= WIDTH_MAX, line)
    }
    assert.match(words, /It adds up\./)
    assert.match(words, /proves nothing about returns/)
    assert.ok(!words.includes('\u001b'), 'colours are for terminals')
  })

  test('--keep leaves a database that the other commands read', async () => {
    const { database, ledger } = await readPrinted()
    assert.ok(database !== null && existsSync(database))
    const check = await runHere(['--db', database, '--json', 'check'])
    const { ok, findings } = JSON.parse(check.out) as { ok: boolean; findings: { kind: string }[] }
    assert.equal(ok, true)
    // Its weeks are long over by this machine's clock, and its late fill is undecided: but it plays in a test
    // environment, which raises no alarm.
    assert.deepEqual(findings, [])
    const executions = await runHere(['--db', database, '--json', 'execution', 'list'])
    assert.equal(JSON.parse(executions.out).length, ledger.executions)
  })

  test('an interrupt cleans up and exits 130', async () => {
    const demo = startIn(['demo'])
    const db = await openOnce(demo)
    db.close()
    demo.child.kill('SIGINT')
    assert.deepEqual([await demo.ended, demo.out()], [130, ''])
    assert.match(demo.err(), /^Interrupted/)
    assert.deepEqual(readdirSync(demo.place), [])
  })

  test('a seed out of bounds is a usage error', async () => {
    for (const seed of ['-1', '1.5', '1000000000']) {
      const { code, err } = await runHere(['demo', `--seed=${seed}`])
      assert.equal(code, 2)
      assert.match(err, /--seed/)
    }
  })

  test('the commands it ends with do what they say', async (t) => {
    const place = mkdtempSync(join(folder, 'real-'))
    const commands = nextCommands(
      { typed: EXECUTABLE, absolute: EXECUTABLE },
      { db: 'tranche.db', cwd: place },
    )
    const [serve, ...following] = commands.map(({ command }) => command)
    // Any free port replaces the default one, which may be taken here.
    const env = { ...process.env, ...CACHE, TRANCHE_PORT: '0', TMPDIR: place }
    const options = { cwd: place, env, timeout: KILL_AFTER_MS }
    const server = spawn('sh', ['-c', `exec ${serve}`], { ...options, stdio: ['ignore', 'ignore', 'pipe'] })
    const closed = once(server, 'close')
    t.after(async () => {
      server.kill('SIGTERM')
      await closed
    })
    const [lines] = await once(server.stderr, 'data')
    const { msg, url } = JSON.parse(String(lines).split('\n')[0] ?? '')
    assert.equal(msg, 'listening')

    const rest = following.map((command) => command.replaceAll('http://127.0.0.1:8080', url))
    const cron = rest.pop() ?? ''
    assert.match(cron, /^(\* ){5}/)
    const script = ['set -e', ...rest, cron.replace(/^(\* ){5}/, '').replace(/ \| logger .*$/, '')].join('\n')
    const shell = spawn('sh', ['-c', script], { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    const [[code], out, err] = await Promise.all([
      once(shell, 'close'),
      text(shell.stdout),
      text(shell.stderr),
    ])
    assert.equal(code, 0, err)
    assert.match(out, /"partner_plan_id":"p1"/)
    assert.match(
      out,
      /\{"ok":true,"execution_id":"exec_[0-9a-f]{32}","status":"filled","partner_order_id":"o1"\}$/,
    )
  })
})
