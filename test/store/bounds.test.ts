// The checks of the tables repeat bounds of core, as a last resort: the two have to agree.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { CENT } from '../../src/core/money.ts'
import { MIN_TRANCHE_LEAST, PARTNER_SLUG_MAX } from '../../src/core/partner.ts'
import { PLAN_AMOUNT_MAX, PLAN_AMOUNT_MIN } from '../../src/core/plan.ts'
import { TEXT_MAX } from '../../src/core/text.ts'
import { RATE_BPS_MAX } from '../../src/core/tier.ts'
import { WEBHOOK_URL_MAX } from '../../src/core/webhook.ts'
import { startService } from '../support/service.ts'

/** The check as the tables have it, and the bounds it has to carry. */
const CHECKS: [table: string, check: RegExp, bounds: (bigint | number)[]][] = [
  ['plans', /amount_usd between (\d+) and (\d+)/, [PLAN_AMOUNT_MIN, PLAN_AMOUNT_MAX]],
  ['partners', /min_tranche >= (\d+)/, [MIN_TRANCHE_LEAST]],
  ['partners', /length\(partner_slug\) between 2 and (\d+)/, [PARTNER_SLUG_MAX]],
  ['partners', /length\(name\) between 1 and (\d+)/, [TEXT_MAX]],
  ['executions', /amount_usd % (\d+) = 0/, [CENT]],
  ['webhooks', /length\(url\) <= (\d+)/, [WEBHOOK_URL_MAX]],
  ['tiers', /rate_bps between 0 and (\d+)/, [RATE_BPS_MAX]],
]

test('each check has the bounds of core', async (t) => {
  const { file } = await startService(t)
  const db = new Database(file, { readonly: true })
  t.after(() => db.close())
  const schema = db.prepare<[string], { sql: string }>('select sql from sqlite_master where name = ?')
  for (const [table, check, bounds] of CHECKS) {
    const found = check.exec(schema.get(table)?.sql ?? '')
    assert.ok(found, `${table} has ${check}`)
    assert.deepEqual(found.slice(1).map(BigInt), bounds.map(BigInt), `${table}: ${found[0]}`)
  }
})
