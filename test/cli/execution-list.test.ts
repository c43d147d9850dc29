// execution list: whose each row is, the filters that narrow it down, and the execution of an order.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS } from '../../src/core/time.ts'
import { succeed as answered, confirmPath, sendFirst } from '../http/steps.ts'
import { command, shell } from '../levers/steps.ts'
import { fill, openShell, PLAN, type Shell, startService, succeed, USER } from '../support/service.ts'

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

// From a partner's order to its execution: of a trade, of a late fill, of a further purchase.

test('execution list --order finds whatever has the order: a trade, a late fill, a further purchase', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [one = '', two = '', none = ''] = (await sendFirst(service, ['p', 'q', 'r'])).values()
  await answered(service, 'POST', confirmPath(one), fill('plain 1', '10.00'))
  await answered(service, 'POST', confirmPath(two), { partner_order_id: 'no', status: 'failed' })
  await service.call('POST', confirmPath(one), fill('more', '5.00'))
  await shell(service, ['execution', 'accept-late', one])
  await service.call('POST', confirmPath(two), fill('late', '12.00'))
  // An order that one execution has, and another one claims.
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
  // What show says of it names the order of each adjustment as well.
  assert.match(await shell(service, ['execution', 'show', one]), /^ +1 +more +5\.00 /m)
})
