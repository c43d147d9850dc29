// From a partner's order to its execution: of a trade, of a late fill, of a further purchase.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { confirmPath, sendFirst, succeed } from '../http/steps.ts'
import { command, shell } from '../levers/steps.ts'
import { fill, startService } from '../support/service.ts'

test('execution list --order finds whatever has the order: a trade, a late fill, a further purchase', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [one = '', two = '', none = ''] = (await sendFirst(service, ['p', 'q', 'r'])).values()
  await succeed(service, 'POST', confirmPath(one), fill('plain 1', '10.00'))
  await succeed(service, 'POST', confirmPath(two), { partner_order_id: 'no', status: 'failed' })
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
