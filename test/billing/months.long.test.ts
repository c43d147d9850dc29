// Months over a year: months that are over never change by a byte, all reports agree, and tampering is found.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, type Instant, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { confirmPath, link, plan, poll, succeed } from '../http/steps.ts'
import { fill, runHere, type Service, startService } from '../support/service.ts'
import { type Entry, openOffice, utc } from './books.ts'

const FORMS = ['summary', 'users', 'trades'].flatMap((report) =>
  ['csv', 'json'].map((format) => `--report ${report} --format ${format}`),
)
const END = utc(2026, 1)

/** The command line beside the service, with its own clock where one is given. */
const command = (service: Service, argv: string, at = service.now()) =>
  runHere(['--db', service.file, ...argv.split(' ')], { machine: machineAt(at).machine })

async function shell(service: Service, argv: string, at = service.now()): Promise<string> {
  const { code, out, err } = await command(service, argv, at)
  assert.equal(code, 0, `${argv}: ${err}`)
  return out
}

async function exportAll(service: Service, month = '2026-01'): Promise<Record<string, string>> {
  const all: Record<string, string> = {}
  for (const form of FORMS)
    all[form] = await shell(service, `billing export --month ${month} ${form} --env live`)
  for (const env of ['live', 'test'])
    all[env] = await shell(service, `billing export --month ${month} --env ${env}`)
  all.whole = await shell(service, `billing export --month ${month} --report users`)
  all.shown = await shell(service, `--json billing show --month ${month}`)
  return all
}

/** The bytes of each report that finance files. */
async function exportFiled(service: Service): Promise<Record<string, string>> {
  const filed: Record<string, string> = {}
  for (const form of FORMS)
    if (form.endsWith('csv'))
      filed[form] = await shell(service, `billing export --month 2026-01 ${form} --env live`)
  return filed
}

async function fireAndPoll(service: Service, key: string): Promise<[plan: string, id: string][]> {
  await service.tick('60000')
  return [...(await poll(service, { key }))].flatMap(([name, executions]) =>
    executions.map((execution): [string, string] => [name, String(execution.execution_id)]),
  )
}

const confirm = (service: Service, key: string, id: string, body: unknown) =>
  service.call('POST', confirmPath(id), body, { key })

/** January: three users, a fill each, and executions of all three still pending when the month ends. */
async function january(service: Service) {
  const key = await service.issueKey('acme', 'live')
  for (const id of ['u1', 'u2', 'u3']) {
    await link(service, id, { key })
    await plan(service, id, `p-${id}`, {}, { key })
  }
  for (const [name, id] of await fireAndPoll(service, key))
    assert.equal((await confirm(service, key, id, fill(`first-${name}`, '10.00'))).status, 200)
  service.setClock(plus(END, -60_000))
  const out = new Map(await fireAndPoll(service, key))
  assert.ok(out.size === 3, 'each plan has an execution out')
  // Late for the plan: cancelled in January, reported and accepted in February.
  await plan(service, 'u3', 'p-u3', { status: 'cancelled' }, { key })
  return { key, out: (user: string) => out.get(`p-${user}`) ?? '' }
}

test('whatever happens afterwards, a final month stays what it was', async (t) => {
  const service = await startService(t)
  const { key, out } = await january(service)
  service.setClock(END)
  await service.tick()
  const before = await exportAll(service)
  assert.match(before['--report summary --format csv'] ?? '', /,true,true,starter,volume,50,3,3,/)

  const later: [what: string, run: () => Promise<unknown>][] = [
    ['a confirmation that comes late', () => confirm(service, key, out('u1'), fill('late', '10.00'))],
    ['a fill of a cancelled plan', () => confirm(service, key, out('u3'), fill('too-late', '9.00'))],
    ['its acceptance', () => shell(service, `execution accept-late ${out('u3')}`)],
    [
      'a tier of this month',
      () => shell(service, 'tier set starter --rate-bps 75 --monthly-minimum-usd 9.00'),
    ],
    ['another tier', () => shell(service, 'tier set cheap --rate-bps 1')],
    ['an override', () => shell(service, 'partner set-tier acme scale')],
    [
      'a user disabled',
      () => succeed(service, 'PATCH', '/partner/v1/users/u2', { status: 'disabled' }, { key }),
    ],
    ['a partner that is new', () => shell(service, 'partner create bolt --name Bolt')],
    ['a clock stepped back', async () => service.setClock(plus(END, -30_000))],
    ['a confirmation then', () => confirm(service, key, out('u2'), fill('back', '10.00'))],
    ['a pass then', () => service.tick('1')],
    ['a partner created then', () => shell(service, 'partner create coda --name Coda')],
    ['a partner disabled', () => shell(service, 'partner disable acme')],
    ['half a year', async () => service.setClock(plus(END, 180 * DAY_MS))],
  ]
  for (const [what, run] of later) {
    await run()
    for (const [form, bytes] of Object.entries(await exportFiled(service)))
      assert.equal(bytes, before[form], `${what}: ${form}`)
  }
  assert.deepEqual(await exportAll(service), before)

  const february = await exportAll(service, '2026-02')
  const trades = february['--report trades --format csv'] ?? ''
  assert.match(trades, /,late,filled,10\.00,/, 'what came late is in the month after')
  assert.match(trades, /,too-late,filled,9\.00,/)
  assert.match(february['--report summary --format csv'] ?? '', /,scale,override,20,/)
  assert.equal((await shell(service, 'billing reconcile --month 2026-01')).includes('agree'), true)
  assert.deepEqual(await service.store.findFaults(), [])
})

// A year of months that agree, and every way to tamper with one of them.

const PARTNERS = ['acme', 'bolt']
const MONTHS = Array.from({ length: 12 }, (_, i) => `2026-${String(i + 1).padStart(2, '0')}`)

/** Equal trades for equal seeds (Park and Miller's generator). */
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
      const proof = await office.json(`--json billing reconcile --month ${month} --env ${env}`)
      assert.deepEqual([proof.ok, proof.final, proof.tenants, proof.findings], [true, true, 2, []])
      for (const report of REPORTS) {
        const argv = `billing export --month ${month} --env ${env} --report ${report} --format json`
        reports.set(`${env} ${report}`, await office.json(argv))
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
        const total = sum(fills, inTrades)
        assert.equal(units(summary[inOthers] ?? ''), total, `${month} ${slug} ${env} ${inOthers}`)
        assert.equal(sum(users, inOthers), total)
      }
      assert.equal(sum(users, 'fee_usd'), units(summary.total_fee_usd ?? ''))
    }
  }
  assert.ok(counted > 2_000, `${counted} trades`)
})

const TAMPERED: [what: string, sql: string, kinds: string[]][] = [
  ['usd_amount', 'update trades set usd_amount = usd_amount - 1 where @', ['trade_changed', 'window_spent']],
  ['recorded_at', 'update trades set recorded_at = recorded_at - 3000000000 where @', ['trade_changed']],
  ['status', "update trades set status = 'partial' where @", ['execution_trade', 'trade_changed']],
  [
    'a fill made a failure',
    `update trades set status = 'failed', usd_amount = null, btc_amount = null, execution_price = null,
       partner_fee_usd = null where @`,
    ['execution_trade', 'trade_changed', 'window_spent'],
  ],
  ['deleted', 'delete from trades where @', ['execution_trade', 'window_spent']],
  ['execution status', "update executions set status = 'sent' where @", ['execution_trade']],
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
  const trades = await office.json(
    'billing export --month 2026-06 --report trades --format json --partner acme --env live',
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
