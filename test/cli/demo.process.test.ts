// demo as a newcomer runs it: in a process of its own, against a real file, over real HTTP.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { nextCommands, type Printed } from '../../src/cli/demo/show.ts'
import { formatUsd, type Usd, usd, ZERO_USD } from '../../src/core/money.ts'
import { folderOfProcess } from '../support/database.ts'
import { CACHE, EXECUTABLE, start } from '../support/process.ts'
import { runHere } from '../support/service.ts'

/** Prevents a hung process from hanging the suite: several times the duration on a slow machine. */
const KILL_AFTER_MS = 120_000

const folder = folderOfProcess()

/** Starts tranche with a temporary folder of its own, in which the files that it leaves can be seen. */
function startIn(argv: readonly string[]) {
  const place = mkdtempSync(join(folder, 'run-'))
  return { ...start({ after }, argv, { cwd: '/', env: { TMPDIR: place } }), place }
}

/** A whole demonstration; its database is not removed. */
const inJson = startIn(['--json', 'demo', '--seed', '7', '--keep'])

async function readPrinted(): Promise<Printed> {
  assert.equal(await inJson.ended, 0, inJson.err())
  return JSON.parse(inJson.out()) as Printed
}

/** Waits until the demonstration running in this folder has recorded a trade. */
async function untilTraded({ hasEnded, place, err }: ReturnType<typeof startIn>): Promise<void> {
  for (;;) {
    const [name = ''] = readdirSync(place)
    const file = join(place, name, 'tranche.db')
    if (existsSync(file) && hasTrade(file)) return
    if (hasEnded()) assert.fail(`it ended early: ${err()}`)
    await pause(20)
  }
}

function hasTrade(file: string): boolean {
  const db = new SQLite(file)
  try {
    return db.prepare('select 1 from trades where usd_amount is not null').get() !== undefined
  } catch {
    // The schema is still being made.
    return false
  } finally {
    db.close()
  }
}

const total = (amounts: readonly string[]): string =>
  formatUsd(amounts.reduce((sum, amount) => (sum + usd(amount)) as Usd, ZERO_USD))

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0)

suite('demo', { concurrency: true }, () => {
  test('its account adds up, whichever way one adds', async () => {
    const account = await readPrinted()
    const windows = account.plans.flatMap((plan) => plan.windows)
    const { partner, tranches, ledger } = account
    assert.deepEqual([ledger.ok, ledger.faults], [true, []])
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
    for (const status of ['filled', 'partial', 'failed'] as const)
      assert.equal(partner[status], tranches.by_status[status])
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
    await untilTraded(demo)
    demo.child.kill('SIGINT')
    assert.deepEqual([await demo.ended, demo.out()], [130, ''])
    assert.match(demo.err(), /^Interrupted/)
    assert.deepEqual(readdirSync(demo.place), [])
  })

  test('the commands it ends with do what they say', async (t) => {
    const place = mkdtempSync(join(folder, 'real-'))
    const name = { typed: EXECUTABLE, absolute: EXECUTABLE }
    const commands = nextCommands(name, { db: 'tranche.db', cwd: place })
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
    const ended = once(shell, 'close')
    const [[code], out, err] = await Promise.all([ended, text(shell.stdout), text(shell.stderr)])
    assert.equal(code, 0, err)
    assert.match(out, /"partner_plan_id":"p1"/)
    assert.match(
      out,
      /\{"ok":true,"execution_id":"exec_[0-9a-f]{32}","status":"filled","partner_order_id":"o1"\}$/,
    )
  })
})
