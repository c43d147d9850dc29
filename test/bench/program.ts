// Ours, as it is shipped: the built executable, in processes of its own.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { isServer } from '../../src/store/address.ts'
import type { Server } from './helper.ts'
import type { Stage } from './row.ts'

const LOOK_MS = 10

let started = 0

type Served = Server & { startMs: number; end: () => Promise<void> }

/** Built when something is first run with it: not to print a `--help`. */
async function executableOn(
  database: string,
): Promise<{ file: string; cwd: string; env: Record<string, string> }> {
  const { CACHE, PROGRAM } = await import('../support/process.ts')
  const cwd = isServer(database) ? tmpdir() : dirname(database)
  return { file: PROGRAM[0], cwd, env: { ...CACHE, TRANCHE_DB: database } }
}

/** Starts serve on a free port, its log in a file as a service has it. It ends with the stage, if not before. */
export async function serve(stage: Stage, database: string, argv: readonly string[] = []): Promise<Served> {
  const log = join(stage.folder, `serve-${started++}.log`)
  const stdio = ['ignore', 'ignore', openSync(log, 'w')] as const
  const { file: executable, cwd, env } = await executableOn(database)
  const begun = performance.now()
  const child = spawn(executable, ['serve', '--port', '0', ...argv], { cwd, env, stdio: [...stdio] })
  const ended = once(child, 'exit')
  const end = async (): Promise<void> => {
    child.kill('SIGTERM')
    await ended
  }
  stage.after(end)
  for (;;) {
    const said = readFileSync(log, 'utf8')
    const listening = /^\{.*"msg":"listening"\}$/m.exec(said)
    if (listening) {
      const { url } = JSON.parse(listening[0])
      return { url, pid: child.pid ?? 0, database, startMs: performance.now() - begun, end }
    }
    if (child.exitCode !== null) throw new Error(`serve ended: ${said}`)
    await wait(LOOK_MS)
  }
}

export type Run = { out: string; ms: number; cpuMs: number; peakMib: number }

/** Runs a command of ours to its end. Throws what it said when it fails. */
export async function run(database: string, argv: readonly string[]): Promise<Run & { serverMs: number }> {
  const { file, ...surroundings } = await executableOn(database)
  const before = databaseCpuUs(database)
  const done = await runProgram(file, argv, surroundings)
  return { ...done, serverMs: (databaseCpuUs(database) - before) / 1000 }
}

/** Runs any program to its end. No other may end meanwhile, or its processor time is counted here. */
export async function runProgram(
  program: string,
  argv: readonly string[],
  options: { cwd: string; env?: Record<string, string> },
): Promise<Run> {
  const cpuBefore = cpuUsOfEnded()
  const begun = performance.now()
  const child = spawn(program, argv, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let peak = Number.NaN
  const watch = setInterval(() => {
    const seen = peakMib(child.pid ?? 0)
    if (Number.isFinite(seen)) peak = seen
  }, LOOK_MS)
  try {
    const closed = once(child, 'close')
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed])
    const ms = performance.now() - begun
    if (code !== 0) throw new Error(`${program} ${argv.join(' ')}: ${code} ${err}`)
    return { out, ms, cpuMs: (cpuUsOfEnded() - cpuBefore) / 1000, peakMib: peak }
  } finally {
    clearInterval(watch)
  }
}

/** What a tick of the executable says of itself. */
type Tick = {
  executions_created: number
  plans_evaluated: number
  duration_ms: number
  skipped?: true
}
export type Ticked = Awaited<ReturnType<typeof run>> & { tick: Tick }

export async function tick(database: string, argv: readonly string[]): Promise<Ticked> {
  const done = await run(database, ['tick', '--json', ...argv])
  return { ...done, tick: JSON.parse(done.out) as Tick }
}

export const isInstalled = (file: string): boolean =>
  (process.env.PATH ?? '').split(':').some((folder) => existsSync(`${folder}/${file}`))

// What a process costs its machine, as Linux tells it. Other systems tell nothing here, and the figures are left out.

/** Linux counts processor time in hundredths of a second, whatever its own clock does. */
const TICK_US = 10_000
const KIB_PER_MIB = 1024

/** Processor time that a process has had so far, in microseconds, in all its threads. */
export const cpuUsOf = (pid: number): number => ticks(String(pid), 'own')

/** Processor time of all processes that this one has started and seen the end of. */
export const cpuUsOfEnded = (): number => ticks('self', 'ended children')

/**
 * Processor time that the server of a database has had so far, in all its processes; not a number for a file. The
 * server listens in its own folder, as those of test/support/postgres-server.ts do.
 */
export function databaseCpuUs(database: string): number {
  if (!isServer(database)) return Number.NaN
  const folder = new URL(database).searchParams.get('host') ?? ''
  const [first = ''] = read(join(folder, 'data/postmaster.pid')).split('\n')
  const children = read(`/proc/${first}/task/${first}/children`).split(' ').filter(Boolean)
  // One that ends between two looks is then among those that have ended.
  const each = children.map((pid) => ticks(pid, 'own')).filter(Number.isFinite)
  return each.reduce((sum, us) => sum + us, ticks(first, 'own') + ticks(first, 'ended children'))
}

/** Memory that a process holds now. */
export const residentMib = (pid: number): number => statusMib(pid, 'VmRSS')

/** The most memory that it ever held. */
export const peakMib = (pid: number): number => statusMib(pid, 'VmHWM')

function ticks(pid: string, whose: 'own' | 'ended children'): number {
  const stat = read(`/proc/${pid}/stat`)
  // The name in brackets may hold blanks; what follows it begins with the third field.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const from = whose === 'own' ? 11 : 13
  return (Number(fields[from]) + Number(fields[from + 1])) * TICK_US
}

function statusMib(pid: number, field: string): number {
  return (
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(read(`/proc/${pid}/status`))?.[1]) / KIB_PER_MIB
  )
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** The figures without those that are not numbers. */
export function known<T extends Record<string, number>>(figures: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(figures).filter(([, value]) => Number.isFinite(value)),
  ) as Partial<T>
}
