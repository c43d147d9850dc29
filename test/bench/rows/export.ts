// The export of a month's trades, held against the shell of SQLite.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { formatInstant, type Instant } from '../../../src/core/instant.ts'
import { isMonth, periodOf } from '../../../src/core/month.ts'
import { machine } from '../../../src/machine.ts'
import { addTrades, fill } from '../../support/large-database.ts'
import { emptyDatabase, settle } from '../database.ts'
import { known } from '../process-cost.ts'
import { isInstalled, type Run, run, runProgram } from '../program.ts'
import type { Contestant, Figures, Row } from '../row.ts'

const USERS = 10_000

/** The same columns and rows in the same order, as they lie in the file. */
const BY_HAND = `select d.recorded_at, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id,
    d.execution_id, d.partner_order_id, d.status, d.usd_amount, d.btc_amount, d.execution_price, d.partner_fee_usd,
    d.executed_at, d.failure_reason
  from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
    join plans p on p.plan_id = d.plan_id
  order by d.recorded_at, d.execution_id`

/** The month before the present one. */
export function lastMonth(): { month: string; start: Instant; end: Instant } {
  const present = period(formatInstant(machine.clock()).slice(0, 7))
  return period(formatInstant((present.start - 1) as Instant).slice(0, 7))
}

function period(month: string) {
  if (!isMonth(month)) throw new Error(`${month} is no month`)
  return periodOf(month)
}

export const billingExport: Row = {
  name: 'export',
  what: 'billing export of the trades of a month, to a file',
  main: 'per_second',
  ratios: [
    {
      name: 'rate to sqlite3 -csv',
      better: 'more',
      of: (seen) => seen('ours', 'per_second') / seen('sqlite3 -csv', 'per_second'),
    },
    {
      name: 'CPU of sqlite3 to ours',
      better: 'more',
      isSteady: true,
      of: (seen) => seen('sqlite3 -csv', 'cpu_us') / seen('ours', 'cpu_us'),
    },
  ],
  goals: [
    { ratio: 'rate to sqlite3 -csv', atLeast: 0.5 },
    { figure: 'peak_mib', atMost: 150 },
  ],

  async prepare(stage, { pick }) {
    const trades = pick({ quick: 60_000, full: 5_000_000 })
    const { file, tenantId } = await emptyDatabase(stage)
    const { month, start, end } = lastMonth()
    fill(file, (db) => addTrades(db, { tenantId, users: USERS, plans: 2 * USERS, trades, start, end }))
    settle(file)
    const out = join(stage.folder, 'out')
    mkdirSync(out)
    const rows = ({ ms, cpuMs, peakMib }: Run): Figures =>
      known({ per_second: (1000 * trades) / ms, cpu_us: (1000 * cpuMs) / trades, peak_mib: peakMib })
    const to = ['--output', join(out, 'trades.csv'), '--force']
    const ours = ['billing', 'export', '--month', month, '--report', 'trades', ...to]
    const contestants: Contestant[] = [
      { name: 'ours', role: 'ours', take: async () => rows(await run(file, ours)) },
    ]
    if (isInstalled('sqlite3')) {
      const script = `exec sqlite3 -csv "$1" "$2" > by-hand.csv`
      const take = async () =>
        rows(await runProgram('/bin/sh', ['-c', script, 'sh', file, BY_HAND], { cwd: out }))
      contestants.push({ name: 'sqlite3 -csv', role: 'floor', take })
    }
    // The first export of a month closes it.
    await run(file, ours)
    return {
      on: `${trades.toLocaleString('en-US')} trades of ${USERS.toLocaleString('en-US')} users`,
      contestants,
      notes: isInstalled('sqlite3') ? [] : ['NOT MEASURED: sqlite3 is not installed, so there is no floor.'],
    }
  },
}
