// Executions and trades from the shell: the list and its filters, and purchases that an operator records.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatInstant, HOUR_MS } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { succeed as answered, assertSound, confirmPath, sendFirst } from '../http/steps.ts'
import { command, shell } from '../levers/steps.ts'
import {
  errorOf,
  fill,
  openShell,
  PLAN,
  runHere,
  type Shell,
  startService,
  succeed,
  T0,
  USER,
} from '../support/service.ts'

type Row = { execution_id: string; partner_slug: string; environment: string; created_at: string }

/** Two partners whose plans have the same id, and three rounds of tranches eight hours apart. */
async function withTwoPartners(t: Parameters<typeof openShell>[0]): Promise<Shell> {
  const shell = openShell(t)
  for (const slug of ['acme', 'beta']) {
    await succeed(shell, 'partner', 'create', slug, '--name', slug)
    const key = (await succeed(shell, 'key', 'create', slug, '--env', 'live')).trim()
    for (const [path, body] of [
      ['users', USER],
      ['plans', PLAN],
    ] as const)
      assert.equal((await shell.call('POST', `/partner/v1/${path}`, key, JSON.stringify(body))).status, 200)
  }
  for (let round = 0; round < 3; round += 1) {
    await succeed(shell, 'tick', '--price', '60000')
    shell.advance(8 * HOUR_MS)
  }
  return shell
}

const list = async (shell: Shell, ...argv: string[]): Promise<Row[]> =>
  JSON.parse(await succeed(shell, 'execution', 'list', '--json', ...argv))

test('each row says whose it is', async (t) => {
  const shell = await withTwoPartners(t)
  const [titles = '', ...rows] = (await succeed(shell, 'execution', 'list')).trimEnd().split('\n')
  assert.match(titles, /^EXECUTION +PARTNER +ENV +PLAN +STATUS /)
  assert.equal(rows.length, 6)
  assert.match(rows[0] ?? '', /^exec_\w+ +acme +live +p1 +pending /)
  assert.deepEqual(new Set(rows.map((row) => row.split(/ +/)[1])), new Set(['acme', 'beta']))
})

test('--since and --limit narrow it down, together with the others; the order stays', async (t) => {
  const shell = await withTwoPartners(t)
  const all = await list(shell)
  assert.deepEqual(
    all.map(({ created_at }) => created_at.slice(11, 13)),
    ['00', '00', '08', '08', '16', '16'],
  )
  const of = (slug: string) => all.filter(({ partner_slug }) => partner_slug === slug)
  for (const [argv, expected] of [
    [['--since', '2026-01-05'], all],
    [['--since', '2026-01-05T08:00:00Z'], all.slice(2)],
    [['--since', '2026-01-05T08:00:00.001Z'], all.slice(4)],
    [['--since', '8h'], all.slice(4)],
    [['--since', '2026-01-06'], []],
    [['--limit', '1'], all.slice(-1)],
    [['--limit', '5'], all.slice(-5)],
    [['--limit', '6'], all],
    [['--limit', '7'], all],
    [['--partner', 'beta', '--limit', '2'], of('beta').slice(-2)],
    [['--partner', 'acme', '--since', '16h', '--limit', '1'], of('acme').slice(-1)],
    [['--partner', 'acme', '--since', '16h'], of('acme').slice(1)],
    [['--env', 'test', '--limit', '2'], []],
    [['--status', 'filled', '--since', '24h'], []],
  ] as const)
    assert.deepEqual(await list(shell, ...argv), expected, argv.join(' '))
  for (const wrong of [
    ['--since', 'yesterday'],
    ['--since', '2026-02-30'],
    ['--since', '5y'],
    ['--limit', '0'],
  ])
    assert.equal((await shell.tranche(['execution', 'list', ...wrong])).code, 2, wrong.join(' '))
})

// From a partner's order to its execution: the order of a trade, of a late fill, of a further purchase.

test('execution list --order finds whatever has the order: a trade, a late fill, a further purchase', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [one = '', two = '', none = ''] = (await sendFirst(service, ['p', 'q', 'r'])).values()
  await answered(service, 'POST', confirmPath(one), fill('plain 1', '10.00'))
  await answered(service, 'POST', confirmPath(two), { partner_order_id: 'no', status: 'failed' })
  await service.call('POST', confirmPath(one), fill('more', '5.00'))
  await shell(service, ['execution', 'accept-late', one])
  await service.call('POST', confirmPath(two), fill('late', '12.00'))
  // An order that belongs to one execution, and that another one claims.
  await service.call('POST', confirmPath(none), fill('plain 1', '10.00'))
  const found = async (...argv: string[]) =>
    JSON.parse(await shell(service, ['execution', 'list', '--json', '--order', ...argv])).map(
      (row: { execution_id: string; order_is: string[] }) => [row.execution_id, row.order_is],
    )
  assert.deepEqual(await found('plain 1'), [
    [one, ['trade']],
    [none, ['late_fill']],
  ])
  assert.deepEqual(await found('more'), [[one, ['further_purchase', 'late_fill']]])
  assert.deepEqual(await found('no'), [[two, ['trade']]])
  assert.deepEqual(await found('late', '--partner', 'acme', '--env', 'live'), [[two, ['late_fill']]])
  assert.deepEqual(await found('late', '--env', 'test'), [])
  assert.deepEqual(await found('LATE'), [])
  assert.match(
    await shell(service, ['execution', 'list', '--order', 'more']),
    new RegExp(`^EXECUTION .* ORDER IS *\\n${one} +acme .* further purchase, late fill\\n$`),
  )
  for (const other of [['--stuck'], ['--status', 'filled'], ['--since', '1h'], ['--limit', '1']])
    assert.equal(
      (await command(service, ['execution', 'list', '--order', 'x', ...other])).code,
      2,
      other.join(' '),
    )
  assert.equal((await command(service, ['execution', 'list', '--order', ''])).code, 2)
  // The output of show names the order of each adjustment as well.
  assert.match(await shell(service, ['execution', 'show', one]), /^ +1 +more +5\.00 /m)
})

// trade record: a purchase without a confirmation is booked once for its order, and appears wherever purchases do.

const RECORD = ['--json', 'trade', 'record', '--partner', 'acme', '--plan', 'p', '--order', 'lost']
const AMOUNTS = ['--usd', '12.5', '--btc', '0.0002', '--reason', 'gone with the backup']

test('a recorded purchase is billed in the present month, listed, exported, audited, and checked', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const { p: id = '' } = Object.fromEntries(await sendFirst(service, ['p']))
  const at = ['--at', '2025-12-24T08:00:00Z', '--fee', '0.05']
  const made = JSON.parse(await shell(service, [...RECORD, ...AMOUNTS, ...at]))
  const { execution_id, recorded_at, ...rest } = made
  assert.equal(recorded_at, '2026-01-05T00:00:00.000Z')
  assert.deepEqual(rest, {
    partner_slug: 'acme',
    environment: 'live',
    partner_plan_id: 'p',
    status: 'filled',
    partner_order_id: 'lost',
    usd_amount: '12.50',
    btc_amount: '0.00020000',
    execution_price: '62500.00',
    partner_fee_usd: '0.05',
    failure_reason: null,
    executed_at: '2025-12-24T08:00:00.000Z',
    already_recorded: false,
  })
  const again = await command(service, [...RECORD, ...AMOUNTS])
  assert.deepEqual(
    [again.code, JSON.parse(again.out)],
    [0, { ...made, already_recorded: true }],
    'the same again changes nothing',
  )
  const other = await command(service, [...RECORD, '--usd', '12.51', '--btc', '0.0002', '--reason', 'x'])
  assert.deepEqual([other.code, errorOf(other.err).code], [5, 'order_id_taken'])
  // The partner's confirmation of an execution under the same order comes too late.
  const late = await service.call('POST', confirmPath(id), fill('lost', '10.00'))
  assert.deepEqual([late.status, late.headers.get('x-error-code')], [409, 'order_id_taken'])
  assert.match(late.body.detail, new RegExp(execution_id))

  const month = ['--month', '2026-01']
  const [summary] = JSON.parse(await shell(service, ['--json', 'billing', 'show', ...month]))
  assert.deepEqual([summary.volume_usd, summary.trade_count, summary.partner_fees_usd], ['12.50', 1, '0.05'])
  const [row] = JSON.parse(
    await shell(service, ['billing', 'export', ...month, '--report', 'trades', '--format', 'json']),
  )
  assert.deepEqual([row.execution_id, row.executed_at], [execution_id, made.executed_at])
  await shell(service, ['billing', 'reconcile', ...month])
  await shell(service, ['check'])
  const audit = JSON.parse(await shell(service, ['--json', 'audit', '--partner', 'acme']))
  const { action, subject, detail } = audit.at(-1)
  assert.deepEqual(
    [action, subject, detail.reason, detail.usd_amount, detail.window_excess_usd],
    ['trade.record', execution_id, 'gone with the backup', '12.50', '0.00'],
  )
  assert.match(await shell(service, ['execution', 'show', execution_id]), /trigger +recorded/)
  const listed = await answered(service, 'GET', '/partner/v1/executions')
  assert.ok(listed.executions.some((one: { execution_id: string }) => one.execution_id === execution_id))
  await assertSound(service)

  // A later correction, as of any trade.
  await shell(service, ['trade', 'adjust', execution_id, '--usd', '12', '--btc', '0.0002', '--reason', 'x'])
  await assertSound(service)
})

test('what is missing in the ledger is named with the command that books it, which works as it is printed', async (t) => {
  const service = await startService(t, { environment: 'live' })
  await sendFirst(service, ['p'])
  const input = 'partner_order_id,usd_amount,btc_amount,partner_plan_id\nlost 1,12.50,0.0002,p\n'
  const { machine } = machineAt(T0)
  const compare = async () => {
    const words = '--json billing reconcile --partner acme --month 2026-01 --against -'.split(' ')
    return JSON.parse((await runHere(['--db', service.file, ...words], { machine, input })).out)
  }
  const [found] = (await compare()).findings
  const [, words = ''] = /tranche .*?(trade record .*)$/.exec(found.mend) ?? []
  assert.match(words, /--partner acme --env live --plan p --order 'lost 1' --usd 12\.50 --btc 0\.00020000/)
  const argv = words.replaceAll("'lost 1'", 'lost_1').split(' ')
  await shell(
    service,
    argv.map((word) =>
      word.replace('lost_1', 'lost 1').replace('TIME', formatInstant(T0)).replace('WHY', 'from their books'),
    ),
  )
  assert.deepEqual((await compare()).findings, [])
})

test('a purchase with its key moves its plan on, and says so; the same key once more, or any other, does not', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const { p: first = '' } = Object.fromEntries(await sendFirst(service, ['p']))
  const key = (index: number) => ['--idempotency-key', `live:p:2026-01-05T00:00:00.000Z:${index}`]
  const record = (order: string, ...more: string[]) =>
    command(service, [
      'trade',
      'record',
      '--partner',
      'acme',
      '--plan',
      'p',
      '--order',
      order,
      ...AMOUNTS,
      '--yes',
      ...more,
    ])
  const moved = await record('a', ...key(1))
  assert.match(moved.err, /not delivered again: tranche 2 of its window is the next/)
  for (const more of [key(1), key(3)]) {
    const stayed = await record(`b${more[1]?.at(-1)}`, ...more)
    assert.match(stayed.err, /is not the next one: its schedule stays as it is/)
  }
  const open = await record('o', ...key(0))
  assert.match(
    open.err,
    new RegExp(`Execution ${first} has this key, .* execution cancel ${first} --reason `),
  )
  assert.equal((await record('c')).err, '')
  const wrong = await record('d', '--idempotency-key', 'q:2026-01-05T00:00:00.000Z:2')
  assert.deepEqual([wrong.code, wrong.out], [2, ''])

  // A stored report has no key either.
  const unknown = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'
  await service.call('POST', confirmPath(unknown), fill('e', '1.00'))
  const accept = await command(service, ['execution', 'accept-late', unknown, '--plan', 'p', ...key(2)])
  assert.match(accept.err, /tranche 3 of its window is the next/)

  // Two days later the ledger has no window, as after a restore: the rest of it will have other keys.
  service.advance(50 * HOUR_MS)
  const lost = await record('l', '--idempotency-key', 'live:p:2026-01-07T00:00:00.000Z:0')
  assert.match(lost.err, /^warning: .*had lost the window of this order.*book every order of that window/)
  assert.equal((await record('m', '--at', '2026-01-06T12:00:00Z')).err, '', 'that one is over')
  await assertSound(service)
})

test('a purchase like one of that day is booked only with --yes, and amounts are rounded as a confirmation is', async (t) => {
  const service = await startService(t, { environment: 'live' })
  await sendFirst(service, ['p'])
  const record = (order: string, ...more: string[]) =>
    command(service, [...RECORD.slice(0, -1), order, '--reason', 'x', ...more])
  const exact = ['--usd', '12.499999995000000001', '--btc', '0.000200004999999999']
  const made = JSON.parse((await record('00546', ...exact)).out)
  assert.deepEqual([made.usd_amount, made.btc_amount], ['12.50', '0.00020000'])
  const twin = await record('546', '--usd', '12.5', '--btc', '0.0002')
  assert.deepEqual([twin.code, twin.out], [5, ''])
  const { code, message } = errorOf(twin.err)
  assert.equal(code, 'purchase_twin')
  assert.match(message, new RegExp(`^Execution ${made.execution_id} .* under order 00546: .* add --yes\\.$`))
  const volume = async () =>
    JSON.parse(await shell(service, ['--json', 'billing', 'show', '--month', '2026-01']))[0].volume_usd
  assert.equal(await volume(), '12.50')
  assert.equal((await record('546', '--usd', '12.5', '--btc', '0.0002', '--yes')).code, 0)
  assert.equal(await volume(), '25.00')
})

test('a purchase that cannot be is refused before anything is written', async (t) => {
  const service = await startService(t, { environment: 'live' })
  await sendFirst(service, ['p'])
  for (const [code, words] of [
    [4, ['--plan', 'q', '--order', 'o', ...AMOUNTS]],
    [5, ['--plan', 'p', '--order', 'o', '--usd', '0', '--btc', '0', '--reason', 'x']],
    [5, ['--plan', 'p', '--order', 'o', '--usd', '9', '--btc', '0.00000001', '--reason', 'x']],
    [2, ['--plan', 'p', '--order', 'o', ...AMOUNTS, '--at', '2026-01-06']],
    [2, ['--plan', 'p', '--order', 'o'.repeat(256), ...AMOUNTS]],
    [2, ['--plan', 'p', '--order', 'o', '--usd', '-1', '--btc', '1', '--reason', 'x']],
    [2, ['--plan', 'p', '--order', 'o', '--usd', '1', '--btc', '1']],
  ] as const) {
    const done = await command(service, ['trade', 'record', '--partner', 'acme', ...words])
    assert.deepEqual([done.code, done.out], [code, ''], words.join(' '))
  }
  assert.equal((await command(service, [...RECORD, ...AMOUNTS, '--env', 'test'])).code, 4)
  assert.deepEqual(await service.store.findByOrder({ slug: null, environment: null }, 'o'), [])
})

test('a purchase of a doubtful price or date is recorded, and a warning says what to look at', async (t) => {
  const service = await startService(t, { environment: 'live' })
  await sendFirst(service, ['p'])
  const words = ['trade', 'record', '--partner', 'acme', '--plan', 'p', '--reason', 'x', '--usd', '12']
  const warned = async (order: string, ...more: string[]) => {
    const { code, err } = await command(service, [...words, '--order', order, ...more])
    assert.equal(code, 0, err)
    return err
  }
  const satoshis = ['--btc', '20000']
  const said = await warned('in satoshis', ...satoshis)
  assert.match(
    said,
    /^warning: 12\.00 USD for 20000\.00000000 BTC is a price of 0\.0006, while the market was at /,
  )
  assert.match(said, /`tranche trade adjust exec_\w+`\n$/)
  assert.match(await warned('in cents', '--btc', '0.00001'), /a price of 1200000\.00, while the market/)
  assert.equal(await warned('in bitcoin', '--btc', '0.0002'), '')
  // A purchase already on record is not warned of again.
  assert.equal(await warned('in satoshis', ...satoshis), 'It is on record already: nothing was changed.\n')
  // No price of that day is known, but the coins would be too cheap on any day.
  const early = await warned('early', ...satoshis, '--at', '2025-06-05')
  assert.match(early, /a price of 0\.0006, which is outside any plausible range/)
  assert.match(early, /warning: plan p was created on 2026-01-05T00:00:00\.000Z: is the date right\?\n$/)
  const asJson = await command(service, ['--json', ...words, '--order', 'json', '--btc', '20001'])
  assert.match(JSON.parse(asJson.err).warnings[0], /while the market was at/)
  await assertSound(service)
})
