// `npm run bench`: the rows, in the order in which they are measured and shown, and their run. Says what it is at on
// stderr, and prints a table.

import { optionsOrExit } from '../support/runner.ts'
import { ON_FILE, onFile } from './backend.ts'
import { bench, optionsOf } from './bench.ts'
import { type Goal, type Ratio, type Row, rateTo, wholeCpuOf } from './row.ts'
import {
  ALONE,
  confirm,
  confirmAlone,
  confirmBesidePass,
  MANY,
  me,
  plan,
  poll,
  TOGETHER,
} from './rows/calls.ts'
import { backtest, IDLE_ON_FILE, startUp, year } from './rows/commands.ts'
import { billingExport, memory, monthPages } from './rows/exports.ts'
import { day, growthOfPlans, idlePass, pass, passTogether, plunge, RAW, RAW_TOGETHER } from './rows/passes.ts'
import { queue, queueOnPostgres } from './rows/queue.ts'

export const ROWS: readonly Row[] = [
  me,
  confirm,
  confirmAlone,
  plan,
  poll,
  pass,
  plunge,
  idlePass,
  growthOfPlans,
  confirmBesidePass,
  queue,
  backtest,
  billingExport,
  monthPages,
  year,
  startUp,
  memory,
  day,
]

// The rows on a server: those of a file, held against a loop by hand on the same server and against ours on a file.

/** By hand at least two and a half times as fast would be a fault of ours. */
const RATE_LEAST = 0.4

const toFile = rateTo('a file', ON_FILE)
const timeToFile: Ratio = {
  name: 'time to a file',
  better: 'less',
  of: (seen) => seen('ours', 'ms') / seen(ON_FILE, 'ms'),
}
const noErrors: Goal = { figure: 'errors', atMost: 0 }
/** Held against a loop by hand on the same server. */
const byHand = (row: Row, floor: string, ...others: readonly string[]): Row => ({
  ...row,
  ratios: [rateTo(floor, floor), wholeCpuOf([...others, floor].join(' and '), ...others, floor), toFile],
  goals: [{ ratio: `rate to ${floor}`, atLeast: RATE_LEAST }, ...row.goals.filter(isOfErrors)],
})
const isOfErrors = (goal: Goal): boolean => 'figure' in goal && goal.figure === 'errors'
/** Its own ratios too, without those to what only a file is held against. */
const beside = (row: Row, ratio: Ratio, without: readonly string[] = []): Row => ({
  ...row,
  ratios: [...row.ratios.filter(({ name }) => !without.includes(name)), ratio],
  goals: row.goals.filter((goal) => !('ratio' in goal && without.includes(goal.ratio))),
})

export const POSTGRES_ROWS: readonly Row[] = [
  { ...me, ratios: [rateTo('h3 with duties', 'h3 with duties'), toFile], goals: [noErrors] },
  byHand(confirm, TOGETHER, 'h3'),
  byHand(confirmAlone, ALONE, 'h3'),
  byHand(plan, MANY, 'h3'),
  beside(poll, timeToFile, ['CPU of ours to raw']),
  byHand(pass, RAW),
  byHand(passTogether, RAW_TOGETHER),
  byHand(plunge, RAW),
  idlePass,
  growthOfPlans,
  { ...confirmBesidePass, goals: [noErrors] },
  queueOnPostgres,
  {
    ...billingExport,
    ratios: [rateTo('psql, copy', 'psql, copy'), rateTo('pg, reading alone', 'pg, reading alone'), toFile],
    goals: [],
  },
  beside(monthPages, timeToFile),
  {
    ...startUp,
    ratios: [
      ...startUp.ratios,
      {
        name: 'idle tick to one on a file',
        better: 'less',
        of: (seen) => seen('ours, idle tick', 'ms') / seen(IDLE_ON_FILE, 'ms'),
      },
    ],
  },
  {
    ...memory,
    ratios: [
      ...memory.ratios,
      {
        name: 'memory to a file',
        better: 'less',
        isSteady: true,
        of: (seen) => seen('ours', 'resident_mib') / seen(ON_FILE, 'resident_mib'),
      },
    ],
    goals: [],
  },
]

const BROKEN_OFF = 130

if (import.meta.main) {
  const namesOf = (rows: readonly Row[]): string[] => rows.map(({ name }) => name)
  const names = { file: namesOf(ROWS), postgres: namesOf(POSTGRES_ROWS) }
  const options = optionsOrExit((args) => optionsOf(args, names))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(BROKEN_OFF))
  const isOnFile = options.store === 'file'
  process.exitCode = await bench(options, {
    on: isOnFile ? onFile : (await import('./postgres.ts')).onPostgres,
    rows: isOnFile ? ROWS : POSTGRES_ROWS,
    note: (text) => void process.stderr.write(`${text}\n`),
    print: (table) => void process.stdout.write(`${table}\n`),
  })
}
