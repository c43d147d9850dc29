// The kinds of test files: which of them are about the whole service, and which share a process.

import { availableParallelism } from 'node:os'
import { relative, resolve } from 'node:path'
import costs from '../costs.json' with { type: 'json' }

/** Whether it needs a PostgreSQL server, and so belongs to `npm test -- --store postgres`. */
export const needsServer = (file: string): boolean => file.endsWith('.server.test.ts')

/**
 * Whether it belongs to `npm test -- --heavy`, which .ci/run runs: it takes seconds of every core for one rule, it
 * drives a browser, or it is a short run of a search that can continue for minutes (fuzz, simulate, faults) or of
 * another command (bench, audit).
 */
export const isHeavy = (file: string): boolean => file.endsWith('.heavy.test.ts')

/** Whether it belongs to `npm run test:fast`: it starts no process, waits for no time limit, and takes no seconds. */
export const isQuick = (file: string): boolean => !/\.(process|server|wait|long|heavy)\.test\.ts$/.test(file)

/** Whether it mostly waits for the product's time limits. */
export const isWaiting = (file: string): boolean => file.endsWith('.wait.test.ts')

/** Whether it tests the stored data and the answers of the service on any store: it runs on each one. */
export const isOfService = (file: string): boolean => ON_EACH_STORE.some((pattern) => pattern.test(file))

/**
 * Leaves out tests of sockets, words and options, which no store changes, and those that read or write rows of the
 * file, as no command does.
 */
const ON_EACH_STORE = [
  /^test\/billing\/(against|issue|months|tiers)\.test\.ts$/,
  /^test\/cli\/(audited|backup|foreign-text\.process|purchases|serve\.process)\.test\.ts$/,
  /^test\/http\/(auth|every-route|executions|late-fills|ops-page|plans|reading|values)\.test\.ts$/,
  /^test\/openapi\/contract\.test\.ts$/,
  /^test\/sandbox\/(api|keys|sandbox\.process)\.test\.ts$/,
  /^test\/webhook\/(cli|deliveries|delivery\.process)\.test\.ts$/,
]

const ROOT = resolve(import.meta.dirname, '../..')

/**
 * Seconds, measured file by file: of processor time, or of waiting for files that wait. The figures need only be
 * proportional, and a file that is not among them takes little.
 */
const COSTS: Record<string, number> = costs
const COST_OF_OTHERS = 0.3

/**
 * The files of each process, so that all end at about the same time: the costliest first, each to the process with the
 * least work. None is empty.
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
/** One process for tests that mostly wait: their waits add up to less than the others take. */
const WAITING = 1
/** What waits takes no core from the others. Tests of a server wait for it, so more of them run at once. */
export const processesAtOnce = (files: readonly string[]): number =>
  WAITING + (files.some(needsServer) ? 2 * CORES : CORES)

/** The files of each process, in the order in which they are to be started. Each loads the program anew. */
export const batchesOf = (files: readonly string[]): string[][] => [
  ...spread(files.filter(isWaiting), WAITING),
  ...spread(files.filter(needsServer), 2 * CORES),
  ...spread(files.filter(startsProcesses), CORES),
  ...spread(files.filter(keepsCoresBusy), CORES),
]

const startsProcesses = (file: string): boolean => file.endsWith('.process.test.ts')
const keepsCoresBusy = (file: string): boolean => isQuick(file) || /\.(heavy|long)\.test\.ts$/.test(file)
