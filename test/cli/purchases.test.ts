// Executions and trades from the shell: the list and its filters, and purchases that an operator records.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatInstant, HOUR_MS } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { assertSound, sendFirst } from '../http/steps.ts'
import { adjustTo, command, shell } from '../levers/steps.ts'
import { errorOf, openShell, runHere, type Shell, startService, succeed, T0 } from '../support/service.ts'
import { addPlan } from './warned.ts'

type Row = { execution_id: string; partner_slug: string; environment: string; created_at: string }

/** Two partners whose plans have the same id, and three rounds of tranches eight hours apart. */
async function withTwoPartners(t: Parameters<typeof openShell>[0]): Promise<Shell> {
  const shell = openShell(t)
  for (const slug of ['acme', 'beta']) {
    await succeed(shell, 'partner', 'create', slug, '--name', slug)
    const key = (await succeed(shell, 'key', 'create', slug, '--env', 'live')).trim()
    await addPlan(shell, key, {})
  }
  for (let round = 0; round < 3; round += 1) {
    await succeed(shell, 'tick', '--price', '60000')
    shell.advance(8 * HOUR_MS)
  }
  return shell
}

const list = async (shell: Shell, ...argv: string[]): Promise<Row[]> =>
  JSON.parse(await succeed(shell, 'execution', 'list', '--json', ...argv))

test('--since and --limit narrow it down, together with the others; the order stays', async (t) => {
  const shell = await withTwoPartners(t)
  const all = await list(shell)
  const hours = all.map(({ created_at }) => created_at.slice(11, 13))
  assert.deepEqual(hours, ['00', '00', '08', '08', '16', '16'])
  const of = (slug: string) => all.filter(({ partner_slug }) => partner_slug === slug)
  for (const [argv, expected] of [
    [['--since', '2026-01-05T08:00:00Z'], all.slice(2)],
    [['--since', '2026-01-05T08:00:00.001Z'], all.slice(4)],
    [['--since', '8h'], all.slice(4)],
    [['--since', '2026-01-06'], []],
    [['--limit', '5'], all.slice(-5)],
    [['--limit', '7'], all],
    [['--partner', 'beta', '--limit', '2'], of('beta').slice(-2)],
    [['--partner', 'acme', '--since', '16h', '--limit', '1'], of('acme').slice(-1)],
    [['--env', 'test', '--limit', '2'], []],
    [['--status', 'filled', '--since', '24h'], []],
  ] as const)
    assert.deepEqual(await list(shell, ...argv), expected, argv.join(' '))
})

test('execution list --order goes with no other filter than whose it is', async (t) => {
  const service = await startService(t)
  for (const other of [['--stuck'], ['--status', 'filled'], ['--since', '1h'], ['--limit', '1']]) {
    const { code } = await command(service, ['execution', 'list', '--order', 'x', ...other])
    assert.equal(code, 2, other.join(' '))
  }
})

// trade record: a purchase without a confirmation is booked once for its order, and appears wherever purchases do.

const RECORD = ['--json', 'trade', 'record', '--partner', 'acme', '--plan', 'p', '--order', 'lost']

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
  const given: Record<string, string> = { lost_1: 'lost 1', TIME: formatInstant(T0), WHY: 'from their books' }
  const argv = words.replaceAll("'lost 1'", 'lost_1').split(' ')
  const named = argv.map((word) => word.replace(/lost_1|TIME|WHY/, (name) => given[name] ?? ''))
  await shell(service, named)
  assert.deepEqual((await compare()).findings, [])
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
  assert.equal((await record('546', '--usd', '12.5', '--btc', '0.0002', '--yes')).code, 0)
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
  const [, id = ''] = /`tranche trade adjust (exec_\w+)`\n$/.exec(said) ?? []
  assert.match((await adjustTo(service, id, '12', '1000')).err, /^warning: .* reports it as trade_price\.\n$/)
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
