// Silence at three in the morning, with real processes: a dead feed, a partner that no longer polls, one whose venue
// takes no order, a disk that fills. One `status` shows each, `check` agrees, and the suggested command works.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { MOUNTING, mayMount } from '../faults/failing.ts'
import { startTicker } from '../price/ticker.ts'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { finish, PROGRAM, WITH_OPS } from '../support/process.ts'
import { openShop, type Shop } from './wrong-clock.ts'

type Finding = { kind: string; severity: string; subject: string; message: string; mend: string }

/** The findings of status at a time, equal to those of check, both as JSON and as text. */
async function found(shop: Shop, shiftMs: number): Promise<Finding[]> {
  const [status, words, check, strict] = await Promise.all([
    shop.run(shiftMs, 'status', '--json'),
    shop.run(shiftMs, 'status'),
    shop.run(shiftMs, 'check', '--json'),
    shop.run(shiftMs, 'check', '--strict'),
  ])
  const { findings } = JSON.parse(status.out) as { findings: Finding[] }
  const checked = JSON.parse(check.out) as { findings: Finding[] }
  assert.deepEqual(checked.findings.map(timeless), findings.map(timeless))
  assert.deepEqual([status.code, check.code, strict.code], [0, 0, findings.length > 0 ? 3 : 0])
  for (const { severity, kind, subject, mend } of findings) {
    const heading = `${severity === 'page' ? 'urgent ' : 'warning'}  ${kind}  ${subject}\n`
    for (const out of [words.out, strict.out]) assert.ok(out.includes(heading) && out.includes(`> ${mend}\n`))
  }
  return findings
}

/** The processes run a moment apart, and a span of a day may have a second more. */
const timeless = (finding: Finding): Finding => ({
  ...finding,
  message: finding.message.replace(/( \d+ (d|h|min|s))+/g, ' <span>'),
})

const kinds = (findings: Finding[]): string[] => findings.map(({ kind }) => kind)
const messageOf = (findings: Finding[], kind: string): string =>
  findings.find((one) => one.kind === kind)?.message ?? `no ${kind}`

/** Runs the command that a finding names, exactly as printed. */
async function mend(shop: Shop, shiftMs: number, findings: Finding[], kind: string) {
  const words =
    findings
      .find((one) => one.kind === kind)
      ?.mend.replaceAll("'", '')
      .split(' ') ?? []
  assert.deepEqual(words.slice(0, 3), ['tranche', '--db', join(shop.cwd, 'tranche.db')])
  return shop.run(shiftMs, ...words.slice(3))
}

/** A live partner on the phone: the calls it sends to a serve whose clock is `shiftMs` off. */
async function partner(shop: Shop, shiftMs: number) {
  const { out } = await shop.run(0, 'key', 'create', 'acme', '--env', 'live')
  const served = await shop.serve(shiftMs, ...WITH_OPS)
  const call = async (path: string, body?: object) => {
    const answer = await fetch(`${served.url}/partner/v1/executions/${path}`, {
      headers: { authorization: `Bearer ${out.trim()}`, connection: 'close' },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
    assert.equal(answer.status, 200)
    return answer.json() as Promise<{ execution_id: string }[]>
  }
  const metrics = async () => readExposition(await (await fetch(`${served.opsUrl}/metrics`)).text())
  return { call, metrics }
}

const onTime = async (shop: Shop, shiftMs: number): Promise<void> => {
  assert.equal((await shop.run(shiftMs, 'tick', '--price', '64000')).code, 0)
}

suite('silence is seen within one status', { concurrency: 2 }, () => {
  test('a feed that dies, and a price that is 36 hours old', async (t) => {
    const shop = await openShop(t)
    let isDead = false
    const { origin } = await startTicker(t, (request, response) => {
      if (isDead) request.socket.destroy()
      else response.end('{"price":"64250.50"}')
    })
    const feed = `${origin}/secret-key#/price`
    await shop.run(0, 'tick', '--price-feed', feed)
    assert.deepEqual(await found(shop, 0), [])
    isDead = true
    await shop.run(MINUTE_MS, 'tick', '--price-feed', feed)
    const at = 36 * HOUR_MS
    await shop.run(at, 'tick', '--price-feed', feed)
    const findings = await found(shop, at)
    assert.ok(kinds(findings).includes('feed_down'), kinds(findings).join())
    const message = messageOf(findings, 'feed_down')
    assert.match(
      message,
      /^has given no price for 1 d 11 h 59 min.* \(.*\); the newest price is 1 d 12 h.* too old to go by/,
    )
    const { out } = await shop.run(at, 'status')
    assert.match(out, new RegExp(`^price +64,250.50 USD, 1 d 12 h .*old.*; feed ${origin} is down$`, 'm'))
    assert.ok(!out.includes('secret-key'), 'the rest of an address may hold a key')
    // Without a feed no feed can be down, once no tick requests it.
    const none = await openShop(t)
    await none.run(0, 'tick')
    assert.deepEqual(await found(none, 0), [])
  })

  test('a partner that has not polled for 26 hours', async (t) => {
    const shop = await openShop(t)
    await onTime(shop, 0)
    const { call, metrics } = await partner(shop, 0)
    assert.equal((await call('due')).length, 3)
    assert.deepEqual(await found(shop, MINUTE_MS), [])
    const at = 26 * HOUR_MS
    await onTime(shop, at)
    const findings = await found(shop, at)
    assert.deepEqual(kinds(findings).slice(0, 2), ['partner_silent', 'executions_stuck'])
    assert.match(messageOf(findings, 'partner_silent'), /^has not polled for 1 d 2 h.*; 6 instructions wait/)
    assert.equal((await mend(shop, at, findings, 'partner_silent')).code, 0)
    const guide = await mend(shop, at, findings, 'executions_stuck')
    assert.match(guide.out, /`tranche execution list --stuck`/)
    const stuck = await shop.run(at, 'execution', 'list', '--stuck')
    assert.equal(stuck.out.match(/^exec_/gm)?.length, 3, 'those that are late: the others fired just now')
    assert.match((await shop.run(at, 'status')).out, /^acme +1 d 2 h .*ago +never +6 /m)
    const { value } = await metrics()
    assert.ok(value('tranche_partner_last_poll_age_seconds{partner="acme"}') < 60, 'of a clock that is right')
  })

  test('a partner that fails every order', async (t) => {
    const shop = await openShop(t)
    await onTime(shop, 0)
    const { call, metrics } = await partner(shop, 0)
    const reasons = ['insufficient funds', 'venue closed', 'insufficient funds']
    for (const [n, { execution_id: id }] of (await call('due')).entries()) {
      const failure_reason = reasons[n]
      await call(`${id}/confirm`, { partner_order_id: `o${n}`, status: 'failed', failure_reason })
    }
    const findings = await found(shop, 0)
    assert.deepEqual(kinds(findings), ['partner_failing'])
    const message = '3 of its 3 orders of the last 24 hours failed; most often: insufficient funds'
    assert.equal(messageOf(findings, 'partner_failing'), message)
    const failed = await mend(shop, 0, findings, 'partner_failing')
    assert.equal(failed.out.match(/^exec_/gm)?.length, 3)
    assert.match((await shop.run(0, 'status')).out, /^orders in 24 h +0 filled, 3 failed$/m)
    const { value } = await metrics()
    assert.equal(value('tranche_partner_orders{partner="acme",result="failed"}'), 3)
    assert.equal(value('tranche_findings{kind="partner_failing",severity="page"}'), 1)
    const series = 'tranche_partner_finding{kind="partner_failing",partner="acme",severity="page"}'
    assert.equal(value(series), 1)
  })

  test('a disk at 99 %, and at 100 %', async (t) => {
    if (!mayMount(t)) return
    const [before = [], at99 = [], at100 = [], check = []] = await onSmallDisk(t)
    assert.deepEqual(kinds(before), [])
    for (const findings of [at99, at100, check]) assert.deepEqual(kinds(findings), ['disk_low'])
    assert.match(messageOf(at99, 'disk_low'), /free of 32\.0 MiB \(\d %\)/)
    assert.match(messageOf(at100, 'disk_low'), /^has 0 B free of 32\.0 MiB \(0 %\)/)
    assert.match(at100[0]?.mend ?? '', /^df -h \//)
  })
})

/**
 * The findings on a disk of 32 MiB beside a running serve, while it fills; at last without serve, when nothing opens.
 */
async function onSmallDisk(t: TestContext): Promise<Finding[][]> {
  const folder = temporaryFolder(t)
  const program = PROGRAM.map((word) => `'${word}'`).join(' ')
  const script = `mount -t tmpfs -o size=32m,mode=700 none "${folder}" && cd "${folder}"
    tranche() { ${program} "$@"; }
    tranche partner create acme --name Acme > partner
    ${program} serve --port 0 2> log &
    until grep -qs listening log; do sleep 0.1; done
    tranche status --json
    head -c 31000000 /dev/zero > fill; tranche status --json
    cat /dev/zero > rest; tranche status --json; tranche check --json
    kill $! && wait $!; cat /dev/zero > more; tranche status`
  const { out, err, code } = await finish(t, [script], { cwd: '/', program: MOUNTING })
  assert.equal(code, 1)
  assert.match(err, /error: The disk of tranche\.db is full/)
  const documents = out.split('\n').filter((line) => line.startsWith('{'))
  return documents.map((line) => (JSON.parse(line) as { findings: Finding[] }).findings)
}
