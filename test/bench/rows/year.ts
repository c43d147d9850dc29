// What an operator runs over the records of a year, held against reading each of them once.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isMonth, periodOf } from '../../../src/core/month.ts'
import { formatInstant, type Instant } from '../../../src/core/time.ts'
import { machine } from '../../../src/machine.ts'
import { TABLES } from '../../../src/store/tables.ts'
import { tradesIn } from '../../support/large-database.ts'
import { known } from '../process-cost.ts'
import { run } from '../program.ts'
import type { Contestant, Figure, Ratio, Row } from '../row.ts'
import { counted } from '../words.ts'

const DAYS = 365
const ROWS = 'every row, once'

const COMMANDS = {
  check: 'ours',
  reconcile: 'ours, billing reconcile',
  export: 'ours, billing export',
  backup: 'ours, backup',
} as const

const toRows = (command: keyof typeof COMMANDS): Ratio => ({
  name: `CPU of ${command} to every row, once`,
  better: 'less',
  isSteady: true,
  of: (seen) => seen(COMMANDS[command], 'cpu_us') / seen(ROWS, 'cpu_us'),
})

const atMost150 = (of: string) => ({ figure: 'peak_mib' as Figure, of, atMost: 150 })

export const year: Row = {
  name: 'year',
  what: 'check, and other commands that read all of a year',
  main: 'cpu_us',
  roundsMax: 3,
  ratios: [toRows('check'), toRows('reconcile'), toRows('export'), toRows('backup')],
  goals: [{ ratio: 'CPU of check to every row, once', atMost: 3 }, ...Object.values(COMMANDS).map(atMost150)],

  async prepare(stage, { on, pick }) {
    const plans = pick({ quick: 20, full: 1_000 })
    const trades = tradesIn({ plans, days: DAYS })
    const month = formatInstant(machine.clock()).slice(0, 7)
    if (!isMonth(month)) throw new Error(`${month} is not a month`)
    const end: Instant = periodOf(month).start
    const { database } = await on.ofYear(stage, { name: 'year', plans, days: DAYS, end })
    const out = join(stage.folder, 'out')
    mkdirSync(out)
    const [from, to] = [
      formatInstant((end - DAYS * 86_400_000) as Instant),
      formatInstant((end - 1) as Instant),
    ]
    const months = ['--from', from.slice(0, 7), '--to', to.slice(0, 7)]
    const argv: Record<keyof typeof COMMANDS, string[]> = {
      check: ['check'],
      reconcile: ['billing', 'reconcile', ...months],
      export: [
        'billing',
        'export',
        ...months,
        '--report',
        'trades',
        '--output',
        join(out, 'trades'),
        '--force',
      ],
      backup: ['backup', join(out, 'copy.db'), '--force'],
    }
    // The first of them closes the months.
    await run(database, argv.reconcile)
    const contestants: Contestant[] = Object.entries(COMMANDS).map(([command, name]) => ({
      name,
      role: 'ours',
      take: async () => {
        const { ms, cpuMs, peakMib, serverMs } = await run(database, argv[command as keyof typeof COMMANDS])
        return known({
          ms,
          cpu_us: (1000 * cpuMs) / trades,
          server_us: (1000 * serverMs) / trades,
          peak_mib: peakMib,
        })
      },
    }))
    const raw = await on.raw(stage)
    const take = async () => {
      const { ms = Number.NaN, cpu_us = Number.NaN } = await raw({
        work: 'rows',
        database,
        count: TABLES.length,
        perCommit: TABLES.length,
      })
      return known({ ms: ms * TABLES.length, cpu_us: (cpu_us * TABLES.length) / trades })
    }
    contestants.push({ name: ROWS, role: 'floor', take })
    return { on: `${counted(trades)} trades of ${counted(plans)} daily plans`, contestants }
  },
}
