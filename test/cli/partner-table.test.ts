// The partners of a status as a table: what a partner says at length takes no more than its column.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { partnerTable } from '../../src/cli/service/status-text.ts'

test('a long reason is cut, and a short one is not', async () => {
  const of = async (reason: string) => {
    const at = '2026-01-05T00:00:00.000Z'
    const row = {
      partner_slug: 'acme',
      last_poll_at: at,
      last_confirm_at: null,
      due_backlog: 0,
      oldest_due_age_seconds: null,
      orders_24h: { filled: 0, failed: 9, commonest_failure_reason: reason },
    } as never
    const [table = ''] = await partnerTable({ at, by_partner: [row], findings: [] })
    return table.split('\n')[1]?.split(/ {2,}/).at(-1)
  }
  assert.equal(await of('market closed'), 'market closed')
  assert.equal(await of('x'.repeat(40)), 'x'.repeat(40))
  assert.equal(await of('é'.repeat(2_000)), `${'é'.repeat(39)}…`)
})
