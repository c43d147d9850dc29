// Two whole demonstrations with one seed, one of them tampered with.

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { showAccount } from '../../src/cli/demo/show.ts'
import { createPaint } from '../../src/cli/terminal.ts'
import type { Fault } from '../../src/store/monitoring.ts'
import { type Demo, openOnce, printedBy, SEED, startIn, startInJson } from './demo-runs.ts'

test('a second process with the same seed tells the same in words, and finds what was tampered with', async () => {
  const inJson = startInJson()
  // Started here: an earlier story may be over before its ledger is opened.
  const tampered = startIn(['demo', '--seed', SEED], { FORCE_COLOR: '1' })
  const fault = await tamperWithTrade(tampered)
  assert.deepEqual([await tampered.ended, tampered.err()], [1, ''])
  assert.deepEqual(readdirSync(tampered.place), [], 'nothing is left behind')

  const account = await printedBy(inJson)
  const expected = { ...account, database: null, ledger: { ...account.ledger, ok: false, faults: [fault] } }
  const words = await showAccount(expected, createPaint(new PassThrough(), true))
  assert.equal(tampered.out(), `${words}\n`)
  assert.ok(account.database?.startsWith(inJson.place))
})

/** A failure that the partner has finished with: it will not be confirmed again. */
const SETTLED_FAILURE = "status = 'failed' and recorded_at < (select max(recorded_at) from trades)"

/** Changes a failed trade, and nothing else, past the program; returns the fault that must be found. */
async function tamperWithTrade(demo: Demo): Promise<Fault> {
  const db = await openOnce(demo, SETTLED_FAILURE)
  const row = db
    .prepare<[], { execution_id: string; partner_order_id: string }>(
      `update trades set failure_reason = 'another' where execution_id =
         (select min(execution_id) from trades where ${SETTLED_FAILURE})
       returning execution_id, partner_order_id`,
    )
    .get()
  db.close()
  assert.ok(row)
  return {
    kind: 'trade_changed',
    subject: `trade ${row.execution_id}`,
    message: `was changed after it was recorded (partner_order_id ${row.partner_order_id})`,
  }
}
