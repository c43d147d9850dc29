// The shipped product: the built executable, in processes of its own; and the cost of a process to its machine.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { isServer } from '../../src/store/address.ts'
import type { Server } from './helper.ts'
import { type Figures, known, type Stage } from './row.ts'

const LOOK_MS = 10

let started = 0

/** Built on first use: a `--help` does not wait for it. */
async function executableOn(database: string) {
  const { CACHE, PROGRAM } = await import('../support/process.ts')
  const cwd = isServer(database) ? tmpdir() : dirname(database)
  return { file: PROGRAM[0], cwd, env: { ...CACHE, TRANCHE_DB: database } }
}

/** Starts serve on a free port, its log in a file as a service has it. It ends with the stage, if not before. */
export async function serve(stage: Stage, database: string): Promise<Server & { end: () => Promise<void> }> {
  const log = join(stage.folder, `serve-${started++}.log`)
  const { file, ...surroundings } = await executableOn(database)
  const stdio = ['ignore' as const, 'ignore' as const, openSync(log, 'w')]
  const child = spawn(file, ['serve', '--port', '0'], { ...surroundings, stdio })
  const ended = once(child, 'exit')
  const end = async (): Promise<void> => {
    child.kill('SIGTERM')
    await ended
  }
  stage.after(end)
  for (;;) {
    const said = readFileSync(log, 'utf8')
    const listening = /^\{.*"msg":"listening"\}$/m.exec(said)
    if (listening) return { url: JSON.parse(listening[0]).url, pid: child.pid ?? 0, database, end }
    if (child.exitCode !== null) throw new Error(`serve ended: ${said}`)
    await wait(LOOK_MS)
  }
}

/** `serverMs` is processor time of the database server, where there is one. */
export type Run = { out: string; ms: number; cpuMs: number; serverMs: number }

/** Runs one of our commands to its end. Throws its output when it fails. */
export async function run(database: string, argv: readonly string[]): Promise<Run> {
  const { file, ...surroundings } = await executableOn(database)
  return runProgram(file, argv, { ...surroundings, database })
}

/** Runs any program to its end. No other may end meanwhile, or its processor time is counted here. */
export async function runProgram(
  program: string,
  argv: readonly string[],
  { database = '', ...options }: { cwd: string; env?: Record<string, string>; database?: string },
): Promise<Run> {
  const [cpuBefore, serverBefore] = [ticks('self', 'ended children'), databaseCpuUs(database)]
  const begun = performance.now()
  const child = spawn(program, argv, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = once(child, 'close')
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed])
  const ms = performance.now() - begun
  if (code !== 0) throw new Error(`${program} ${argv.join(' ')}: ${code} ${err}`)
  const cpuMs = (ticks('self', 'ended children') - cpuBefore) / 1000
  return { out, ms, cpuMs, serverMs: (databaseCpuUs(database) - serverBefore) / 1000 }
}

/** The cost of a run per item. */
export const forEach = ({ ms, cpuMs, serverMs }: Omit<Run, 'out'>, items: number): Figures =>
  known({
    per_second: (1000 * items) / ms,
    cpu_us: (1000 * cpuMs) / items,
    server_us: (1000 * serverMs) / items,
  })

// The cost of a process to its machine, as Linux reports it. On other systems the figures are left out.

/** Linux counts processor time in hundredths of a second, whatever its own clock does. */
const TICK_US = 10_000
const KIB_PER_MIB = 1024

/** The processor time of a process so far, in microseconds, over all its threads. */
export const cpuUsOf = (pid: number): number => ticks(String(pid), 'own')

/**
 * The processor time of a database's server so far, over all its processes; NaN for a file. The server listens in its
 * own folder, as those of test/support/postgres-server.ts do.
 */
export function databaseCpuUs(database: string): number {
  if (!isServer(database)) return Number.NaN
  const folder = new URL(database).searchParams.get('host') ?? ''
  const [first = ''] = read(join(folder, 'data/postmaster.pid')).split('\n')
  const children = read(`/proc/${first}/task/${first}/children`).split(' ').filter(Boolean)
  // A process that ends between the two readings counts among the ended ones.
  const each = children.map((pid) => ticks(pid, 'own')).filter(Number.isFinite)
  return each.reduce((sum, us) => sum + us, ticks(first, 'own') + ticks(first, 'ended children'))
}

/** The resident memory of a process. */
export const residentMib = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`))?.[1]) / KIB_PER_MIB

function ticks(pid: string, whose: 'own' | 'ended children'): number {
  const stat = read(`/proc/${pid}/stat`)
  // The name in brackets may hold blanks; the text after it begins with the third field.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const from = whose === 'own' ? 11 : 13
  return (Number(fields[from]) + Number(fields[from + 1])) * TICK_US
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
