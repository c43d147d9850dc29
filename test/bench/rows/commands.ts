// What an operator's commands cost: a start, and a tick from cron that finds nothing to do; what reads the records of a
// year; the backtest.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isMonth, periodOf } from '../../../src/core/month.ts'
import { formatInstant, type Instant } from '../../../src/core/time.ts'
import { FREQUENCIES, type Frequency } from '../../../src/core/window.ts'
import { machine } from '../../../src/machine.ts'
import { TABLES } from '../../../src/store/tables.ts'
import { tradesIn } from '../../support/large-database.ts'
import { type Backend, onFile } from '../backend.ts'
import { startHelper } from '../helper.ts'
import type { InsideDone, InsideJob } from '../inside.ts'
import { known, type Run, run, runProgram } from '../program.ts'
import { counted } from '../report.ts'
import {
  type Contestant,
  type Figure,
  type Figures,
  median,
  type Ratio,
  type Row,
  type Stage,
} from '../row.ts'

const PLANS = 10_000
const IDLE_TICK = ['tick', '--price', '60000']
const IDLE = 'ours, idle tick'
export const IDLE_ON_FILE = `${IDLE}, on a file`

export const startUp: Row = {
  name: 'start-up',
  what: 'the start of a process: tranche version, an idle tick',
  main: 'ms',
  ratios: [
    {
      name: 'version to node -e 0',
      better: 'less',
      of: (seen) => seen('ours', 'ms') / seen('node -e 0', 'ms'),
    },
    {
      name: 'idle tick to node -e 0',
      better: 'less',
      of: (seen) => seen('ours, idle tick', 'ms') / seen('node -e 0', 'ms'),
    },
    {
      name: 'CPU of an idle tick to node -e 0',
      better: 'less',
      isSteady: true,
      of: (seen) => seen('ours, idle tick', 'cpu_us') / seen('node -e 0', 'cpu_us'),
    },
  ],
  goals: [
    { ratio: 'version to node -e 0', atMost: 3 },
    { ratio: 'idle tick to node -e 0', atMost: 4 },
  ],

  async prepare(stage, { on, pick }) {
    const starts = pick({ quick: 5, full: 30 })
    const { database } = await onFile.empty(stage)
    const waitingOn = async (which: Backend) => {
      const layout = { users: 1, plans: PLANS, limits: 'in turns' } as const
      return (await which.ofPlans(stage, { name: 'waiting', ...layout })).database
    }
    const waiting = await waitingOn(on)
    const beside = on.store === 'file' ? null : await waitingOn(onFile)
    const times = (start: () => Promise<Run & { serverMs?: number }>): Contestant['take'] => {
      return async () => {
        const runs: (Run & { serverMs?: number })[] = []
        for (let n = 0; n < starts; n++) runs.push(await start())
        const mean = (of: (run: (typeof runs)[number]) => number) =>
          runs.reduce((sum, run) => sum + of(run), 0) / starts
        return known({
          ms: median(runs.map(({ ms }) => ms)),
          cpu_us: 1000 * mean(({ cpuMs }) => cpuMs),
          server_us: 1000 * mean(({ serverMs = Number.NaN }) => serverMs),
        })
      }
    }
    const bare = () => runProgram(process.execPath, ['-e', '0'], { cwd: stage.folder })
    // The first start of all unpacks the addon.
    await run(beside ?? waiting, ['tick'])
    return {
      on: `${starts} starts a turn; ${counted(PLANS)} plans that wait`,
      contestants: [
        { name: 'ours', role: 'ours', take: times(() => run(database, ['version'])) },
        { name: IDLE, role: 'ours', take: times(() => run(waiting, IDLE_TICK)) },
        ...(beside
          ? [{ name: IDLE_ON_FILE, role: 'ours' as const, take: times(() => run(beside, IDLE_TICK)) }]
          : []),
        { name: 'node -e 0', role: 'floor', take: times(bare) },
      ],
    }
  },
}

// What an operator runs over the records of a year, held against reading each of them once.

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

// The backtest: bars of a price history that the scheduler's own decisions pass in a second.

const nameOf = (frequency: Frequency): string =>
  frequency === 'daily' ? 'ours' : `ours, ${frequency} windows`

export const backtest: Row = {
  name: 'backtest',
  what: 'the backtest, daily windows, without reading the file: bars',
  main: 'per_second',
  ratios: [
    {
      name: 'CPU of the averages to ours',
      better: 'more',
      isSteady: true,
      of: (seen) => seen('the average of each window', 'cpu_us') / seen('ours', 'cpu_us'),
    },
  ],
  goals: [{ figure: 'per_second', atLeast: 10_000_000 }],

  async prepare(stage, { pick }) {
    const bars = pick({ quick: 60_000, full: 400_000 })
    const start = (own: Pick<Stage, 'after'>) =>
      startHelper<InsideJob, InsideDone>(own, join(import.meta.dirname, '../inside.ts'))
    const inside = await start(stage)
    const figures = ({ ms, cpuMs, bars: passed }: InsideDone): Figures => ({
      per_second: (1000 * passed) / ms,
      cpu_us: (1000 * cpuMs) / passed,
    })
    const played = (frequency: Frequency, work: 'backtest' | 'sums') => async () =>
      figures(await inside.ask({ work, frequency, bars }))
    /** As a command runs it: with nothing compiled. */
    const cold = async (): Promise<Figures> => {
      const endings: (() => unknown)[] = []
      try {
        const fresh = await start({ after: (end) => void endings.push(end) })
        return figures(await fresh.ask({ work: 'backtest', frequency: 'daily', bars }))
      } finally {
        for (const end of endings) await end()
      }
    }
    const contestants: Contestant[] = FREQUENCIES.map((frequency) => ({
      name: nameOf(frequency),
      role: 'ours',
      take: played(frequency, 'backtest'),
    }))
    contestants.push({ name: 'ours, in a fresh process', role: 'ours', take: cold })
    contestants.push({ name: 'the average of each window', role: 'floor', take: played('daily', 'sums') })
    for (const { take } of contestants) await take(0)
    return { on: `${counted(bars)} prices, five minutes apart`, contestants }
  },
}
