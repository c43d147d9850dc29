// Failures, made to happen: status has the code, the metrics and the alerts of docs/monitoring.md show it, and the
// printed command mends it when it is pasted. Those of a feed, of orders, keys, webhooks, certificates, backups and
// modes of files are held with their nouns.

import assert from 'node:assert/strict'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { openShop, SHIFTED, type Shop } from '../clock/wrong-clock.ts'
import { MOUNTING, mayMount } from '../faults/failing.ts'
import { damageAt } from '../store/damage.ts'
import { temporaryFolder } from '../support/database.ts'
import { CACHE, finish, PROGRAM, WITH_OPS } from '../support/process.ts'
import { callAt, fill } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import {
  ALERTS,
  FAILURES,
  type Failure,
  failureNamed,
  firing,
  isPrinted,
  RULES,
  valuesOf,
} from './failures.ts'

type Stage = {
  /** How far every process's clock is off by now. */
  shiftMs: number
  /** The part of the remedy that the command cannot do. */
  elsewhere?: () => unknown
  /** Runs after the command, which has printed `out`. */
  after?: (out: string, served: Served) => unknown
  /** Whether serve is restarted for the second look. */
  restarts?: true
  /** An exit code that the command may have. */
  exits?: number
}
type Served = Awaited<ReturnType<Shop['serve']>>

const PRICE = ['tick', '--price', '64000']

/** Makes a failure of a shop whose database is file `db`. */
type Cause = (t: TestContext, shop: Shop, db: string) => Promise<Stage>

/** Instructions that a partner fetches and fills when the failure has been seen. */
const unfetched: Cause = async (_, shop) => {
  const key = (await shop.run(0, 'key', 'create', 'acme', '--env', 'live')).out.trim()
  await shop.run(0, ...PRICE)
  const shiftMs = 20 * MINUTE_MS
  const after = async () => {
    const { url, child, ended } = await shop.serve(shiftMs)
    const { body: due } = await callAt({ url, key }, 'GET', 'executions/due')
    for (const { execution_id: id, amount_usd } of due) {
      const order = { ...fill(id, amount_usd), btc_amount: (Number(amount_usd) / 60_000).toFixed(8) }
      const answer = await callAt({ url, key }, 'POST', `executions/${id}/confirm`, order)
      assert.equal(answer.status, 200, JSON.stringify(answer.body))
    }
    child.kill('SIGTERM')
    await ended
  }
  return { shiftMs, after, restarts: true }
}

const CAUSES: Record<string, Cause> = {
  async 'no tick runs'(_, shop) {
    await shop.run(0, ...PRICE)
    return { shiftMs: 3 * HOUR_MS }
  },

  'a partner is silent': unfetched,
  'instructions wait': unfetched,

  async 'the file is damaged'(_, shop, db) {
    const copy = join(shop.cwd, 'copy.db')
    await shop.run(0, 'backup', copy)
    await damageAt(db, 'update windows set spent = spent + 1')
    assert.equal((await shop.run(0, 'check')).code, 3)
    return {
      shiftMs: 0,
      exits: 3,
      restarts: true,
      async after(out, served) {
        assert.match(out, /window_spent/)
        served.child.kill('SIGTERM')
        await served.ended
        await shop.store.close()
        for (const argv of [['restore', copy], ['resume', '--yes'], ['check']]) {
          const { code, err } = await shop.run(0, ...argv)
          assert.equal(code, 0, err)
        }
      },
    }
  },

  async 'the clock is a day ahead'(_, shop) {
    await shop.run(0, 'tick', '--price-feed', shop.feed)
    assert.equal((await shop.run(DAY_MS, 'tick', '--price-feed', shop.feed)).code, 1)
    const stage: Stage = { shiftMs: DAY_MS, restarts: true }
    stage.elsewhere = () => {
      stage.shiftMs = 0
    }
    stage.after = () => shop.run(0, 'tick', '--price-feed', shop.feed)
    return stage
  },

  async 'the clock is a day behind'(_, shop) {
    await shop.run(0, ...PRICE)
    const stage: Stage = { shiftMs: -DAY_MS, restarts: true }
    stage.elsewhere = () => {
      stage.shiftMs = 0
    }
    return stage
  },

  async 'no check is made'(_, shop) {
    assert.equal((await shop.run(0, 'check', '--daily')).code, 0)
    return { shiftMs: 3 * DAY_MS }
  },
}

/** Failures that need a booted machine or a PostgreSQL server are tests of these files, by the same names. */
const ELSEWHERE = {
  'the file belongs to another user': 'booted.heavy.test.ts',
  '`serve` has stopped': 'booted.heavy.test.ts',
  'a setting is wrong': 'booted.heavy.test.ts',
  'the standby is away': '../store/postgres-health.server.test.ts',
}

/** Commands about the clock show it on a machine that systemd runs: a booted test pastes them. */
const isOfBooted = (command: string): boolean =>
  command.startsWith('timedatectl') && !existsSync('/run/systemd/system')

/** A shell's `tranche` whose clock is off, by the variable. */
function layProgram(t: TestContext): string {
  const folder = temporaryFolder(t)
  const words = SHIFTED.map((word) => `'${word}'`).join(' ')
  writeFileSync(join(folder, 'tranche'), `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 })
  return folder
}

type Status = { findings: { kind: string; mend: string }[] }

async function shows(t: TestContext, row: Failure, cause: Cause): Promise<void> {
  const shop = await openShop(t)
  const db = join(shop.cwd, 'tranche.db')
  const stage = await cause(t, shop, db)
  const found = async () => {
    const { out } = await shop.run(stage.shiftMs, 'status', '--json')
    return (JSON.parse(out) as Status).findings.find(({ kind }) => kind === row.code)
  }
  const start = () => shop.serve(stage.shiftMs, ...WITH_OPS)
  let served = await start()
  const metrics = async () => (await fetch(`${served.opsUrl}/metrics`)).text()

  const finding = await found()
  assert.ok(finding, `status has ${row.code}`)
  assert.ok(isPrinted(finding.mend, row), finding.mend)
  const text = await metrics()
  const isSeen = valuesOf(text, row).some((value) => value > 0)
  assert.ok(isSeen, `the metrics have ${row.code}`)
  if (hasTool(t, 'promtool')) assert.deepEqual(firing(t, text, row), [row.alert])

  await stage.elsewhere?.()
  let out = ''
  if (!isOfBooted(row.command)) {
    const env = { ...CACHE, PATH: `${layProgram(t)}:${process.env.PATH}`, SHIFT_MS: String(stage.shiftMs) }
    const pasted = await finish(t, [finding.mend], { cwd: '/', env, program: ['sh', '-euc'] })
    assert.equal(pasted.code, stage.exits ?? 0, `${finding.mend}: ${pasted.err}${pasted.out}`)
    out = pasted.out
  }
  await stage.after?.(out, served)
  if (stage.restarts) {
    served.child.kill('SIGKILL')
    await served.ended
    served = await start()
  }
  await waitFor(async () => !(await found()))
  assert.equal(await found(), undefined, `${finding.mend} ends ${row.code}`)
  if (hasTool(t, 'promtool')) assert.deepEqual(firing(t, await metrics(), row), [])
}

/** Waits for writes that happen concurrently with an answer. */
async function waitFor(isSo: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; tries < 20 && !(await isSo()); tries++)
    await new Promise((resolve) => setTimeout(resolve, 100))
}

suite('each failure is shown, sets off its alarm, and ends with what is printed', { concurrency: 2 }, () => {
  for (const [what, cause] of Object.entries(CAUSES)) test(what, (t) => shows(t, failureNamed(what), cause))
})

const FILLED = 'the disk is nearly full'

test(FILLED, async (t) => {
  if (!mayMount(t)) return
  const row = failureNamed(FILLED)
  const folder = temporaryFolder(t)
  const program = PROGRAM.map((word) => `'${word}'`).join(' ')
  // A disk of 32 MiB with a database and a serve: looked at before, when it is full, and after.
  const script = `mount -t tmpfs -o size=32m,mode=700 none "${folder}" && cd "${folder}"
    tranche() { ${program} "$@"; }
    tranche partner create acme --name Acme > partner
    ${program} serve --port 0 --ops-listen 127.0.0.1:0 2> log &
    until grep -qs listening log; do sleep 0.1; done
    ops=$(grep -o '"ops_url":"[^"]*"' log | cut -d '"' -f 4)
    head -c 31000000 /dev/zero > fill
    look() { tranche status --json; curl -s "$ops/metrics" | grep '^tranche_findings{kind="disk_low"'; }
    look
    eval "$(tranche status --json | grep -o '"mend": *"df[^"]*"' | cut -d '"' -f 4)" | tail -n 1
    rm fill; look
    kill $!; wait $!`
  const { out, err, code } = await finish(t, [script], { cwd: '/', program: MOUNTING })
  assert.equal(code, 0, err)
  const [before = '', metric = '', used = '', after = '', silent = ''] = out.trim().split('\n')
  const [finding] = (JSON.parse(before) as Status).findings
  assert.equal(finding?.kind, row.code)
  assert.ok(isPrinted(finding?.mend ?? '', row), finding?.mend)
  assert.match(used, / (9\d|100)% /, 'what it shows is the disk')
  assert.deepEqual((JSON.parse(after) as Status).findings, [])
  const values = [metric, silent].map((line) => Number(line.split(' ').at(-1)))
  assert.deepEqual(values, [1, 0])
  if (!hasTool(t, 'promtool')) return
  assert.deepEqual(firing(t, metric, row), [row.alert])
  assert.deepEqual(firing(t, silent, row), [])
})

const RENAMED = 'the file is renamed'

test(RENAMED, async (t) => {
  const row = failureNamed(RENAMED)
  const shop = await openShop(t)
  const db = join(shop.cwd, 'tranche.db')
  await shop.store.close()
  const status = () => shop.run(0, 'status', '--json')
  let served = await shop.serve(0, ...WITH_OPS)
  const metrics = async () => (await fetch(`${served.opsUrl}/metrics`)).text()
  const up = async () => valuesOf(await metrics(), row)
  assert.deepEqual(await up(), [1])
  renameSync(db, `${db}.other`)
  const { code, err } = await status()
  assert.deepEqual([code, JSON.parse(err).error.code], [4, row.code])
  await waitFor(async () => (await up())[0] === 0)
  assert.deepEqual(await up(), [0])
  if (hasTool(t, 'promtool')) assert.deepEqual(firing(t, await metrics(), row), [row.alert])
  const command = row.command.replace('RENAMED', `${db}.other`).replace('FILE', db)
  served.child.kill('SIGTERM')
  await served.ended
  assert.equal((await finish(t, [command], { cwd: '/', program: ['sh', '-euc'] })).code, 0)
  served = await shop.serve(0, ...WITH_OPS)
  assert.deepEqual(await up(), [1])
  assert.deepEqual(JSON.parse((await status()).out).findings, [])
  if (hasTool(t, 'promtool')) assert.deepEqual(firing(t, await metrics(), row), [])
})

test('every failure has its test, and its alert', () => {
  for (const { what, alert } of FAILURES) assert.ok(ALERTS.includes(alert), `${what}: ${alert}`)
  assert.match(RULES, /alert: TrancheDown\n +expr: up\{/)
  const here = [...Object.keys(CAUSES), FILLED, RENAMED]
  const expected = FAILURES.map(({ what }) => what).sort()
  assert.deepEqual([...here, ...Object.keys(ELSEWHERE)].sort(), expected)
  for (const [what, file] of Object.entries(ELSEWHERE)) {
    const text = readFileSync(join(import.meta.dirname, file), 'utf8')
    assert.ok(text.includes(`test('${what}'`), `${file} has a test of ${what}`)
  }
})
