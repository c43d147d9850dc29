// The export of a month's trades, held against the shell of SQLite.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { formatInstant, type Instant } from '../../../src/core/instant.ts'
import { isMonth, periodOf } from '../../../src/core/month.ts'
import { machine } from '../../../src/machine.ts'
import { addTrades, fill } from '../../support/large-database.ts'
import { copyOf, emptyDatabase, settle } from '../database.ts'
import { TRADES_BY_HAND } from '../floors/raw-trades.ts'
import { known } from '../process-cost.ts'
import { isInstalled, type Run, run, runProgram } from '../program.ts'
import { cpuOf, rateTo } from '../ratios.ts'
import { startRaw } from '../raw.ts'
import type { Contestant, Figures, Row } from '../row.ts'
import { counted } from '../words.ts'

const USERS = 10_000

const READING = 'better-sqlite3, reading alone'

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
    rateTo('sqlite3 -csv', 'sqlite3 -csv'),
    cpuOf('sqlite3', 'sqlite3 -csv'),
    {
      name: 'rate of better-sqlite3, reading alone, to sqlite3 -csv',
      better: 'more',
      of: (seen) => seen(READING, 'per_second') / seen('sqlite3 -csv', 'per_second'),
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
    const raw = await startRaw(stage)
    const contestants: Contestant[] = [
      { name: 'ours', role: 'ours', take: async () => rows(await run(file, ours)) },
      {
        name: READING,
        role: 'floor',
        take: () => raw({ work: 'trades', file: copyOf(file, 'raw.db'), count: trades, perCommit: trades }),
      },
    ]
    if (isInstalled('sqlite3')) {
      const script = `exec sqlite3 -csv "$1" "$2" > by-hand.csv`
      const take = async () =>
        rows(await runProgram('/bin/sh', ['-c', script, 'sh', file, TRADES_BY_HAND], { cwd: out }))
      contestants.push({ name: 'sqlite3 -csv', role: 'floor', take })
    }
    // The first export of a month closes it.
    await run(file, ours)
    return {
      on: `${counted(trades)} trades of ${counted(USERS)} users`,
      contestants,
      notes: isInstalled('sqlite3') ? [] : ['NOT MEASURED: sqlite3 is not installed, so there is no floor.'],
    }
  },
}
