// The export of a month's trades, held against the shell of SQLite.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isMonth, periodOf } from '../../../src/core/month.ts'
import { formatInstant, type Instant } from '../../../src/core/time.ts'
import { machine } from '../../../src/machine.ts'
import type { Backend } from '../backend.ts'
import { TRADES_BY_HAND } from '../floors/trades.ts'
import { ours } from '../ours.ts'
import { databaseCpuUs, known } from '../process-cost.ts'
import { isInstalled, type Run, run, runProgram } from '../program.ts'
import { cpuOf, rateTo } from '../ratios.ts'
import type { Figures, Row } from '../row.ts'
import { counted } from '../words.ts'

const USERS = 10_000

const READING = { file: 'better-sqlite3, reading alone', postgres: 'pg, reading alone' }

/** The month before the present one. */
export function lastMonth(): { month: string; start: Instant; end: Instant } {
  const present = period(formatInstant(machine.clock()).slice(0, 7))
  return period(formatInstant((present.start - 1) as Instant).slice(0, 7))
}

function period(month: string) {
  if (!isMonth(month)) throw new Error(`${month} is not a month`)
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
      name: `rate of ${READING.file}, to sqlite3 -csv`,
      better: 'more',
      of: (seen) => seen(READING.file, 'per_second') / seen('sqlite3 -csv', 'per_second'),
    },
  ],
  goals: [
    { ratio: 'rate to sqlite3 -csv', atLeast: 0.5 },
    { figure: 'peak_mib', atMost: 150 },
  ],

  async prepare(stage, scale) {
    const { on, pick } = scale
    const trades = pick({ quick: 60_000, full: 5_000_000 })
    const { month, start, end } = lastMonth()
    const out = join(stage.folder, 'out')
    mkdirSync(out)
    const rows = ({ ms, cpuMs, peakMib, serverMs = Number.NaN }: Run & { serverMs?: number }): Figures =>
      known({
        per_second: (1000 * trades) / ms,
        cpu_us: (1000 * cpuMs) / trades,
        server_us: (1000 * serverMs) / trades,
        peak_mib: peakMib,
      })
    let of = ''
    const contestants = await ours(scale, async (on) => {
      const layout = { users: USERS, plans: 2 * USERS, trades, start, end }
      const { database } = await on.ofTrades(stage, { name: 'trades', ...layout })
      if (on === scale.on) of = database
      const to = ['--output', join(out, `${on.store}.csv`), '--force']
      const argv = ['billing', 'export', '--month', month, '--report', 'trades', ...to]
      // The first export of a month closes it.
      await run(database, argv)
      return async () => rows(await run(database, argv))
    })
    const shell = shellOf(on, of)
    const raw = await on.raw(stage)
    const job = { work: 'trades', count: trades, perCommit: trades } as const
    contestants.push({
      name: READING[on.store],
      role: 'floor',
      take: async () => raw({ ...job, database: await on.copyOf(of, 'raw') }),
    })
    if (shell) {
      const take = async () => {
        const before = databaseCpuUs(of)
        const done = await runProgram('/bin/sh', ['-c', ...shell.argv], { cwd: out })
        return rows({ ...done, serverMs: (databaseCpuUs(of) - before) / 1000 })
      }
      contestants.push({ name: shell.name, role: 'floor', take })
    }
    return {
      on: `${counted(trades)} trades of ${counted(USERS)} users`,
      contestants,
      notes: shell ? [] : ['NOT MEASURED: sqlite3 is not installed, so there is no floor.'],
    }
  },
}

/** The store's own shell, which writes the same rows as they are; null where it is missing. */
function shellOf({ store }: Backend, database: string): { name: string; argv: string[] } | null {
  if (store === 'postgres') {
    const copy = `set search_path to tranche; copy (${TRADES_BY_HAND}) to stdout (format csv)`
    return { name: 'psql, copy', argv: ['exec psql -qX "$1" -c "$2" > by-hand.csv', 'sh', database, copy] }
  }
  if (!isInstalled('sqlite3')) return null
  const script = 'exec sqlite3 -csv "$1" "$2" > by-hand.csv'
  return { name: 'sqlite3 -csv', argv: [script, 'sh', database, TRADES_BY_HAND] }
}
