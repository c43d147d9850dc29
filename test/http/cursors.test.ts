// How long a cursor may be: the API description says so, and none is longer.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ID_MAX } from '../../src/core/text.ts'
import { CURSOR_MAX, wrap } from '../../src/http/fields.ts'
import { fill, startService } from '../support/service.ts'
import { confirmPath, link, PLANS, PRICE, plan, poll, succeed } from './steps.ts'

const USERS = '/partner/v1/billing/monthly/users?month=2026-01&'

test('the longest ids have cursors within the bound, and a longer cursor is refused', async (t) => {
  const service = await startService(t)
  const longest = '\u{1f680}'.repeat(ID_MAX)
  const next = `${longest.slice(0, -2)}\u{1f681}`
  for (const id of [longest, next]) {
    await link(service, id)
    await plan(service, id, id)
  }
  await service.tick(PRICE)
  for (const [id, [execution]] of await poll(service))
    await succeed(
      service,
      'POST',
      confirmPath(String(execution?.execution_id)),
      fill(`o-${id.endsWith(next)}`, '10.00'),
    )
  for (const [path, rows, name] of [
    [`${PLANS}?`, 'plans', 'partner_plan_id'],
    [USERS, 'users', 'partner_user_id'],
  ] as const) {
    const { next_cursor } = await succeed(service, 'GET', `${path}limit=1`)
    assert.ok(next_cursor.length > 1_360 && next_cursor.length <= CURSOR_MAX, `${next_cursor.length}`)
    const page = await succeed(service, 'GET', `${path}limit=1&cursor=${next_cursor}`)
    assert.deepEqual(
      page[rows].map((row: Record<string, unknown>) => row[name]),
      [next],
    )
  }
  const beyond = wrap(`plan ${'x'.repeat(CURSOR_MAX)}`)
  const refused = await service.call('GET', `${PLANS}?cursor=${beyond}`)
  assert.deepEqual([refused.status, refused.body.detail[0].loc], [422, ['query', 'cursor']])
})
