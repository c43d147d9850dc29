// A year of months that agree, and every way to tamper with one of them.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, type Instant, plus } from '../../src/core/time.ts'
import { type Entry, openOffice, utc } from './books.ts'

const PARTNERS = ['acme', 'bolt']
const MONTHS = Array.from({ length: 12 }, (_, i) => `2026-${String(i + 1).padStart(2, '0')}`)

/** The same trades for the same seed (Park and Miller's generator). */
function* year(seed: number, trades: number): Generator<Entry> {
  let state = seed
  const below = (limit: number): number => {
    state = (state * 48_271) % 2_147_483_647
    return state % limit
  }
  let at: Instant = utc(2026, 0)
  for (let i = 0; i < trades; i++) {
    at = plus(at, below(2 * Math.floor((365 * DAY_MS) / trades)))
    if (at >= utc(2027, 0)) return
    const who = { user: `u${below(7)}`, at, order: `${seed}-${i}` }
    const kind = below(10)
    if (kind === 0) yield { ...who, reason: '=no funds' }
    else if (kind === 1) yield { ...who, status: 'cancelled' }
    else {
      const usd = `${1 + below(900)}.${String(below(100_000_000)).padStart(8, '0')}`
      const fee = below(2) === 0 ? {} : { fee: `0.${below(99_999_999)}` }
      yield { ...who, usd, btc: `0.${String(1 + below(9_000_000)).padStart(8, '0')}`, ...fee }
    }
  }
}

async function openYear(t: Parameters<typeof openOffice>[0], trades: number) {
  const office = await openOffice(t, utc(2026, 0), PARTNERS)
  let seed = 20_260
  for (const slug of PARTNERS)
    for (const environment of ['live', 'test'] as const) office.enter(slug, environment, year(++seed, trades))
  await office.read('tier set starter --rate-bps 50 --per-active-user-usd 0.37 --monthly-minimum-usd 9.99')
  office.setClock(utc(2027, 0))
  return office
}

type Row = Record<string, string | null>
const REPORTS = ['trades', 'users', 'summary'] as const

const units = (text: string): bigint => BigInt(text.replace(/\.(\d+)$/, (_, places) => places.padEnd(8, '0')))
const sum = (rows: Row[], field: string): bigint =>
  rows.reduce((total, row) => total + units(row[field] ?? '0.00'), 0n)

test('users = trades = summary for every month of a simulated year', async (t) => {
  const office = await openYear(t, 900)
  await office.read('check')
  let counted = 0
  for (const month of MONTHS) {
    const reports = new Map<string, Row[]>()
    for (const env of ['live', 'test']) {
      const proof = JSON.parse(await office.read(`--json billing reconcile --month ${month} --env ${env}`))
      assert.deepEqual([proof.ok, proof.final, proof.tenants, proof.findings], [true, true, 2, []])
      for (const report of REPORTS) {
        const argv = `billing export --month ${month} --env ${env} --report ${report} --format json`
        reports.set(`${env} ${report}`, JSON.parse(await office.read(argv)))
      }
    }
    for (const [env, slug] of ['live', 'test'].flatMap((env) =>
      PARTNERS.map((slug) => [env, slug] as const),
    )) {
      const rows = (report: (typeof REPORTS)[number]): Row[] =>
        (reports.get(`${env} ${report}`) ?? []).filter((row) => row.partner_slug === slug)
      const [trades, users, [summary = {}]] = [rows('trades'), rows('users'), rows('summary')]
      const fills = trades.filter((trade) => trade.usd_amount !== null)
      counted += fills.length
      assert.equal(summary.trade_count as unknown, fills.length)
      for (const [inTrades, inOthers] of [
        ['usd_amount', 'volume_usd'],
        ['btc_amount', 'volume_btc'],
        ['partner_fee_usd', 'partner_fees_usd'],
      ] as const) {
        assert.equal(
          units(summary[inOthers] ?? ''),
          sum(fills, inTrades),
          `${month} ${slug} ${env} ${inOthers}`,
        )
        assert.equal(sum(users, inOthers), sum(fills, inTrades))
      }
      assert.equal(sum(users, 'fee_usd'), units(summary.total_fee_usd ?? ''))
    }
  }
  assert.ok(counted > 2_000, `${counted} trades`)
})

const TAMPERED: [what: string, sql: string, kinds: string[]][] = [
  ['usd_amount', 'update trades set usd_amount = usd_amount - 1 where @', ['trade_changed', 'window_spent']],
  ['btc_amount', 'update trades set btc_amount = btc_amount + 1 where @', ['trade_changed']],
  ['price', 'update trades set execution_price = execution_price + 1 where @', ['trade_changed']],
  ['fee', 'update trades set partner_fee_usd = 1 where @', ['trade_changed']],
  ['recorded_at', 'update trades set recorded_at = recorded_at - 3000000000 where @', ['trade_changed']],
  ['executed_at', 'update trades set executed_at = 1 where @', ['trade_changed']],
  ['order', "update trades set partner_order_id = 'other' where @", ['trade_changed']],
  ['status', "update trades set status = 'partial' where @", ['execution_trade', 'trade_changed']],
  [
    'a fill made a failure',
    `update trades set status = 'failed', usd_amount = null, btc_amount = null, execution_price = null,
       partner_fee_usd = null where @`,
    ['execution_trade', 'trade_changed', 'window_spent'],
  ],
  ['deleted', 'delete from trades where @', ['execution_trade', 'window_spent']],
  ['execution status', "update executions set status = 'sent' where @", ['execution_trade']],
  ['execution cancelled', "update executions set status = 'cancelled' where @", ['execution_trade']],
  ['reservation', 'update executions set amount_usd = 1000000 where @', ['trade_amount']],
  ['another user', 'update trades set user_id = user_id % 7 + 1 where @', ['execution_place']],
  [
    'no plan',
    'pragma foreign_keys = off; update trades set plan_id = 1000000 where @',
    ['summary_differ', 'users_differ', 'execution_place', 'foreign_key'],
  ],
  [
    'no execution',
    'pragma foreign_keys = off; delete from executions where @',
    ['foreign_key', 'window_spent'],
  ],
]

test('reconcile exits 3 and names the row, whatever was changed in it', async (t) => {
  const office = await openYear(t, 120)
  const trades = JSON.parse(
    await office.read(
      'billing export --month 2026-06 --report trades --format json --partner acme --env live',
    ),
  )
  const victim = trades.find((trade: Record<string, string>) => trade.status === 'filled')
  const id: string = victim.execution_id
  const { copyFileSync, readFileSync, rmSync, writeFileSync } = await import('node:fs')
  office.sql('pragma wal_checkpoint(truncate)')
  const clean = `${office.folder}/clean.db`
  copyFileSync(office.file, clean)
  for (const [what, sql, kinds] of TAMPERED) {
    office.sql(sql.replaceAll('@', `execution_id = '${id}'`))
    const { code, out } = await office.tranche('--json billing reconcile --month 2026-06')
    assert.equal(code, 3, `${what}: ${out}`)
    const { ok, findings } = JSON.parse(out)
    assert.equal(ok, false)
    const found = findings.map((finding: { kind: string }) => finding.kind)
    for (const kind of kinds) assert.ok(found.includes(kind), `${what}: ${kind} in ${found}`)
    const named = findings.some((finding: { subject: string }) => finding.subject.includes(id))
    assert.ok(named || what === 'no execution', `${what}: the row is named in ${out}`)
    const words = await office.tranche('billing reconcile --month 2026-06')
    assert.equal(words.code, 3)
    assert.match(words.out, /WHAT +WHERE +FOUND/)
    for (const end of ['-wal', '-shm']) rmSync(office.file + end, { force: true })
    writeFileSync(office.file, readFileSync(clean))
  }
  await office.read('billing reconcile --month 2026-06')
})
