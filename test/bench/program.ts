// Ours, as it is shipped: the built executable, in processes of its own.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { isServer } from '../../src/store/address.ts'
import type { Server } from './loading.ts'
import { cpuUsOfEnded, databaseCpuUs, peakMib } from './process-cost.ts'
import type { Stage } from './row.ts'

const LOOK_MS = 10

let started = 0

export type Served = Server & { startMs: number; end: () => Promise<void> }

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
export type Tick = {
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
