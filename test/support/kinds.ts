// Which kinds of test files there are, which of them are about the whole service, and which share a process.

import { availableParallelism } from 'node:os'
import { relative, resolve } from 'node:path'
import costs from '../costs.json' with { type: 'json' }

/** Whether it needs a PostgreSQL server, and so belongs to `npm test -- --store postgres`. */
export const needsServer = (file: string): boolean => file.endsWith('.server.test.ts')

/**
 * Whether it belongs to `npm test -- --heavy`, which .ci/run runs: it takes seconds of every core for one rule, it
 * drives a browser, or it is a short run of a search that can go on for minutes (fuzz, simulate, faults) or of another
 * command (bench, audit).
 */
export const isHeavy = (file: string): boolean => file.endsWith('.heavy.test.ts')

/** Whether it belongs to `npm run test:fast`: it starts no process, waits for no time limit, and takes no seconds. */
export const isQuick = (file: string): boolean => !/\.(process|server|wait|long|heavy)\.test\.ts$/.test(file)

/** Whether its time goes by in waiting for the product's time limits, not in work. */
export const isWaiting = (file: string): boolean => file.endsWith('.wait.test.ts')

/** Those about the service that put rows into the file, or read them there, to make or to see what no command does. */
const LOOK_INTO_THE_FILE = [
  'test/billing/export.process.test.ts',
  'test/billing/export.test.ts',
  'test/billing/invoice.test.ts',
  'test/billing/months.long.test.ts',
  'test/cli/check.test.ts',
  'test/cli/late-scheduler.test.ts',
  'test/cli/live-screen.test.ts',
  'test/cli/transcripts.test.ts',
  'test/http/billing.test.ts',
  'test/http/ops-page.long.test.ts',
  'test/http/ops.test.ts',
  'test/http/readiness.wait.test.ts',
  'test/sandbox/time.test.ts',
  'test/webhook/events.test.ts',
  'test/webhook/follow.test.ts',
]

/** Those that are about the file itself: its backups, its bytes, what is beside it, how it fails. */
const OF_THE_FILE = [
  'test/cli/file.process.test.ts',
  'test/cli/demo.process.test.ts',
  'test/cli/init.process.test.ts',
  'test/cli/outputs.test.ts',
  'test/cli/serve-opening.process.test.ts',
  'test/cli/start.process.test.ts',
  'test/levers/erase.test.ts',
]

/** Whether it is about the service, whatever keeps its data: it runs on each store. */
export const isOfService = (file: string): boolean =>
  /^test\/(billing|cli|http|levers|openapi|sandbox|webhook)\//.test(file) &&
  ![...LOOK_INTO_THE_FILE, ...OF_THE_FILE].includes(file)

const ROOT = resolve(import.meta.dirname, '../..')

/**
 * Seconds, measured file by file: of processor time, for files that wait of waiting. The figures need not be right,
 * only in proportion, and a file that is not among them takes little.
 */
const COSTS: Record<string, number> = costs
const COST_OF_OTHERS = 0.3

/**
 * The files of each process, so that all end at about the same time: the costliest first, each to the process that has
 * least to do. None is empty.
 */
export function spread(files: readonly string[], processes: number): string[][] {
  const costOf = (file: string): number => COSTS[relative(ROOT, resolve(ROOT, file))] ?? COST_OF_OTHERS
  const batches = Array.from({ length: processes }, () => ({ cost: 0, files: [] as string[] }))
  for (const file of files.toSorted((a, b) => costOf(b) - costOf(a))) {
    const idlest = batches.reduce((least, other) => (other.cost < least.cost ? other : least))
    idlest.cost += costOf(file)
    idlest.files.push(file)
  }
  return batches.map((batch) => batch.files).filter((batch) => batch.length > 0)
}

const CORES = availableParallelism()
/** What waits takes next to no processor time, so it may run beside everything else. */
const WAITING = 3
/** While those wait, others keep the cores busy. More would end no earlier, and would make those that wait late. */
export const PROCESSES_AT_ONCE = WAITING + CORES

/** The files of each process, in the order in which they are to be started. */
export const batchesOf = (files: readonly string[]): string[][] => [
  ...spread(files.filter(isWaiting), WAITING),
  ...spread(files.filter(needsServer), 2 * CORES),
  ...spread(files.filter(startsProcesses), 2 * CORES),
  ...spread(files.filter(keepsCoresBusy), CORES),
]

const startsProcesses = (file: string): boolean => file.endsWith('.process.test.ts')
const keepsCoresBusy = (file: string): boolean => isQuick(file) || /\.(heavy|long)\.test\.ts$/.test(file)
