// Measures what test files cost, each by itself, and writes it down in test/costs.json.

import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { isWaiting } from './kinds.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const COSTS = join(ROOT, 'test/costs.json')
/** What costs less is not worth a line. */
const SECONDS_MIN = 0.5
/** What a process loads before its first test, once for all its files. */
const LOADING_SECONDS = 0.5
/** The unit of /proc/PID/stat: Linux shows it as this on every machine. */
const TICKS_PER_SECOND = 100

/**
 * Replaces the costs of these files, and leaves those of others as they are. Throws for a file that fails. Linux only.
 */
export function recordCosts(
  files: readonly string[],
  flags: readonly string[],
  env: NodeJS.ProcessEnv,
): void {
  const costs: Record<string, number> = JSON.parse(readFileSync(COSTS, 'utf8'))
  for (const file of files.map((one) => relative(ROOT, resolve(ROOT, one)))) {
    const seconds = secondsOf(file, flags, env) - LOADING_SECONDS
    if (seconds < SECONDS_MIN) delete costs[file]
    else costs[file] = Math.round(seconds * 10) / 10
    process.stdout.write(`${seconds.toFixed(1)} ${file}\n`)
  }
  const sorted = Object.entries(costs).sort(([a], [b]) => (a < b ? -1 : 1))
  writeFileSync(COSTS, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`)
}

/** Of processor time, that of the processes it starts included; for a file that waits, of time. */
function secondsOf(file: string, flags: readonly string[], env: NodeJS.ProcessEnv): number {
  const before = isWaiting(file) ? performance.now() / 1000 : childrenSeconds()
  const { status } = spawnSync(process.execPath, [...flags, '--test-reporter=dot', file], {
    cwd: ROOT,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if (status !== 0) throw new Error(`${file} fails`)
  return (isWaiting(file) ? performance.now() / 1000 : childrenSeconds()) - before
}

/** The processor time of all the processes that this one has started and that have ended. */
function childrenSeconds(): number {
  // The name of the program comes before the last bracket, and may hold anything; cutime and cstime are fields 16
  // and 17.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? []
  return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND
}
