// Two operators at once, each in a process of their own.

import assert from 'node:assert/strict'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { assertSound, confirmPath, ledgerOf, sendFirst, succeed, windowsOf } from '../http/steps.ts'
import { finish } from '../support/process.ts'
import { fill, startService } from '../support/service.ts'

test('the same correction made twice at once is made once; different ones follow each other', async (t) => {
  const service = await startService(t)
  const out = await sendFirst(service, ['same', 'other'])
  for (const [name, id] of out) await succeed(service, 'POST', confirmPath(id), fill(`o-${name}`, '10.00'))
  const adjust = (name: string, usd: string) => {
    const argv = [
      'trade',
      'adjust',
      out.get(name) ?? '',
      '--usd',
      usd,
      '--btc',
      '0.0005',
      '--reason',
      'wrong',
    ]
    return finish(t, ['--db', service.file, ...argv], { cwd: dirname(service.file) })
  }
  const [same, other] = await Promise.all([
    Promise.all([adjust('same', '4.00'), adjust('same', '4.00'), adjust('same', '4.00')]),
    Promise.all([adjust('other', '5.00'), adjust('other', '6.00')]),
  ])
  assert.deepEqual(same.map(({ code }) => code).toSorted(), [0, 5, 5])
  assert.deepEqual(
    other.map(({ code }) => code),
    [0, 0],
  )
  assert.deepEqual((await windowsOf(service, 'same')).map(ledgerOf), ['0.00 4.00 0.00 open'])
  const found = await service.store.findExecution(out.get('other') ?? '')
  assert.equal(found?.adjustments.length, 2)
  const ids = found?.adjustments.map(({ adjustmentId }) => adjustmentId) ?? []
  assert.ok((ids[0] ?? 0) < (ids[1] ?? 0))
  await assertSound(service)
})
