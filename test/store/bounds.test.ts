// The checks of the tables, of both stores, repeat bounds and closed lists of core, as a last resort: they have to
// agree.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { KEPT_FOR, REPORT_STATUSES } from '../../src/core/confirmation.ts'
import { EXECUTION_STATUSES, RECORDED, TRIGGERS } from '../../src/core/execution.ts'
import { RATE_BPS_MAX } from '../../src/core/fees.ts'
import { CENT } from '../../src/core/money.ts'
import { ENVIRONMENTS, MIN_TRANCHE_LEAST, PARTNER_SLUG_MAX } from '../../src/core/partner.ts'
import { PLAN_AMOUNT_MAX, PLAN_AMOUNT_MIN, PLAN_STATUSES } from '../../src/core/plan.ts'
import { SANDBOX_UNTIL } from '../../src/core/sandbox.ts'
import { FAILURE_REASON_MAX, REASON_MAX, TEXT_MAX } from '../../src/core/text.ts'
import { WEBHOOK_URL_MAX } from '../../src/core/webhook.ts'
import { FREQUENCIES } from '../../src/core/window.ts'
import { TABLES } from '../../src/store/tables.ts'
import { startService } from '../support/service.ts'

/** The check as the tables have it, and the bounds it has to carry. */
const BOUNDS: [table: string, check: RegExp, bounds: (bigint | number)[]][] = [
  ['plans', /amount_usd between (\d+) and (\d+)/, [PLAN_AMOUNT_MIN, PLAN_AMOUNT_MAX]],
  ['partners', /min_tranche >= (\d+)/, [MIN_TRANCHE_LEAST]],
  ['partners', /length\(partner_slug\) between 2 and (\d+)/, [PARTNER_SLUG_MAX]],
  ['partners', /length\(name\) between 1 and (\d+)/, [TEXT_MAX]],
  ['executions', /amount_usd % (\d+) = 0/, [CENT]],
  ['executions', /length\(cancel_reason\) between 1 and (\d+)/, [REASON_MAX]],
  ['adjustments', /length\(reason\) between 1 and (\d+)/, [REASON_MAX]],
  ['webhooks', /length\(url\) <= (\d+)/, [WEBHOOK_URL_MAX]],
  ['webhooks', /length\(last_failure_reason\) between 1 and (\d+)/, [FAILURE_REASON_MAX]],
  ['tiers', /rate_bps between 0 and (\d+)/, [RATE_BPS_MAX]],
  ['sandboxes', /offset_ms between 0 and (\d+)/, [SANDBOX_UNTIL]],
]

/** The words that a column may contain. */
const LISTS: [table: string, column: string, words: readonly string[]][] = [
  ['tenants', 'environment', ENVIRONMENTS],
  ['plans', 'frequency', FREQUENCIES],
  ['plans', 'status', PLAN_STATUSES],
  ['executions', 'trigger_kind', [...TRIGGERS, RECORDED]],
  ['executions', 'status', EXECUTION_STATUSES],
  ['trades', 'status', REPORT_STATUSES],
  ['late_reports', 'status', REPORT_STATUSES],
  ['late_reports', 'reason', KEPT_FOR],
]

function holds(tableOf: (name: string) => string): void {
  for (const [table, check, bounds] of BOUNDS) {
    const found = check.exec(tableOf(table))
    assert.ok(found, `${table} has ${check}`)
    assert.deepEqual(found.slice(1).map(BigInt), bounds.map(BigInt), `${table}: ${found[0]}`)
  }
  for (const [table, column, words] of LISTS) {
    const [, list] = new RegExp(`check \\(${column} in \\(([^)]*)\\)\\)`).exec(tableOf(table)) ?? []
    assert.equal(
      list?.replace(/\s+/g, ' '),
      words.map((word) => `'${word}'`).join(', '),
      `${table}.${column}`,
    )
  }
}

test('each check of a file has the bounds and the words of core', async (t) => {
  const { file } = await startService(t)
  const db = new Database(file, { readonly: true })
  t.after(() => db.close())
  const schema = db.prepare<[string], { sql: string }>('select sql from sqlite_master where name = ?')
  holds((name) => schema.get(name)?.sql ?? '')
})

test('each check on a server has the bounds and the words of core', () => {
  const folder = join(import.meta.dirname, '../../sql/postgres')
  const migrations = readdirSync(folder)
    .sort()
    .map((name) => readFileSync(join(folder, name), 'utf8'))
  // The newest first: a check that a migration rewords is found before the one it replaces.
  const statements =
    migrations
      .join('\n')
      .match(/^(?:create|alter) table \w+\s.*?;$/gms)
      ?.reverse() ?? []
  const tableOf = (name: string) => statements.filter((text) => text.split(/\s/, 3)[2] === name).join('\n')
  holds(tableOf)
  // Without a server, at least the name of a column that only the files' migrations have is missed.
  for (const { name, columns } of TABLES)
    for (const column of columns) assert.match(tableOf(name), new RegExp(`\\b${column.name}\\b`), name)
})
