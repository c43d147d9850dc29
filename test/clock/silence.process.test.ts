// Silence at three in the morning, with real processes: a dead feed, and a partner whose venue takes no order. One
// `status` shows each, `check` agrees, and the suggested command works.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { spellFree } from '../../src/core/text.ts'
import { HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { startTicker } from '../price/ticker.ts'
import { readExposition } from '../support/exposition.ts'
import { WITH_OPS } from '../support/process.ts'
import { openShop, type Shop } from './wrong-clock.ts'

type Finding = { kind: string; severity: string; subject: string; message: string; mend: string }

/** The findings of status at a time, equal to those of check. */
async function found(shop: Shop, shiftMs: number): Promise<Finding[]> {
  const [status, check, strict] = await Promise.all(
    [
      ['status', '--json'],
      ['check', '--json'],
      ['check', '--strict'],
    ].map((argv) => shop.run(shiftMs, ...argv)),
  )
  const { findings } = JSON.parse(status?.out ?? '') as { findings: Finding[] }
  const checked = JSON.parse(check?.out ?? '') as { findings: Finding[] }
  assert.deepEqual(checked.findings.map(timeless), findings.map(timeless))
  assert.deepEqual([status?.code, check?.code, strict?.code], [0, 0, findings.length > 0 ? 3 : 0])
  return findings
}

/** The processes run a moment apart, and a span of a day may have a second more. */
const timeless = (finding: Finding): Finding => ({
  ...finding,
  message: finding.message.replace(/( \d+ (d|h|min|s))+/g, ' <span>'),
})

test('the free space of a disk is said, also where it has none', () => {
  const said = [spellFree(0, 32 * 2 ** 20), spellFree(59, 100), spellFree(0, 0)]
  assert.deepEqual(said, ['0 B free of 32.0 MiB (0 %)', '59 B free of 100 B (59 %)', '0 B free of 0 B (0 %)'])
})

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
    const at = 36 * HOUR_MS
    for (const ms of [MINUTE_MS, at]) await shop.run(ms, 'tick', '--price-feed', feed)
    const down = (await found(shop, at)).find(({ kind }) => kind === 'feed_down')
    const words = /^has given no price for 1 d 11 h 59 min.*; the newest price is 1 d 12 h.* too old to go by/
    assert.match(down?.message ?? '', words)
    const { out } = await shop.run(at, 'status')
    assert.match(out, new RegExp(`^price +64,250.50 USD, 1 d 12 h .*old.*; feed ${origin} is down$`, 'm'))
    assert.ok(!out.includes('secret-key'), 'the rest of an address may hold a key')
  })

  test('a partner that fails every order', async (t) => {
    const shop = await openShop(t)
    await shop.run(0, 'tick', '--price', '64000')
    const key = (await shop.run(0, 'key', 'create', 'acme', '--env', 'live')).out.trim()
    const served = await shop.serve(0, ...WITH_OPS)
    const call = async (path: string, body?: object) => {
      const answer = await fetch(`${served.url}/partner/v1/executions/${path}`, {
        headers: { authorization: `Bearer ${key}`, connection: 'close' },
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
      })
      return (await answer.json()) as { execution_id: string }[]
    }
    const reasons = ['insufficient funds', 'venue closed', 'insufficient funds']
    for (const [n, { execution_id: id }] of (await call('due')).entries())
      await call(`${id}/confirm`, { partner_order_id: id, status: 'failed', failure_reason: reasons[n] })
    const [finding] = await found(shop, 0)
    assert.equal(finding?.kind, 'partner_failing')
    const message = '3 of its 3 orders of the last 24 hours failed; most often: insufficient funds'
    assert.equal(finding.message, message)
    const mend = finding.mend.replaceAll("'", '').split(' ').slice(3)
    assert.equal((await shop.run(0, ...mend)).out.match(/^exec_/gm)?.length, 3)
    assert.match((await shop.run(0, 'status')).out, /^orders in 24 h +0 filled, 3 failed$/m)
    const { value } = readExposition(await (await fetch(`${served.opsUrl}/metrics`)).text())
    assert.equal(value('tranche_partner_orders{partner="acme",result="failed"}'), 3)
    assert.equal(value('tranche_findings{kind="partner_failing",severity="page"}'), 1)
    const series = 'tranche_partner_finding{kind="partner_failing",partner="acme",severity="page"}'
    assert.equal(value(series), 1)
    assert.ok(value('tranche_partner_last_poll_age_seconds{partner="acme"}') < 60)
  })
})
