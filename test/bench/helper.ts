// Processes of their own that do one job after another for the bench: the load and the floors.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import type { StoreName } from './backend.ts'
import type { LoadDone, LoadJob } from './load.ts'
import { cpuUsOf, databaseCpuUs, forEach, residentMib } from './program.ts'
import { type Figures, known, type Stage } from './row.ts'

type Helper<Job, Done> = {
  pid: number
  /** Rejects with the error that the process reports, or when the process ends. */
  ask: (job: Job) => Promise<Done>
}

type Reply<Done> = { done: Done } | { failed: string }

/** Starts a script, named from this folder, that ends with `serveJobs`; it is ended with the stage. */
export async function startHelper<Job, Done>(
  stage: Pick<Stage, 'after'>,
  script: string,
  argv: readonly string[] = [],
): Promise<Helper<Job, Done>> {
  const child: ChildProcess = fork(resolve(import.meta.dirname, script), argv, {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const ended = once(child, 'exit')
  stage.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const reply = async <T>(): Promise<T> => {
    const failed = ended.then(([code, signal]) => {
      throw new Error(`${script} ended with ${code ?? signal}`)
    })
    const [answer] = (await Promise.race([once(child, 'message'), failed])) as [Reply<T>]
    if ('failed' in answer) throw new Error(answer.failed)
    return answer.done
  }
  await reply()
  return {
    pid: child.pid ?? 0,
    ask(job) {
      const answer = reply<Done>()
      child.send(job as object)
      return answer
    },
  }
}

/** For the process itself: reports that it has started, and then does its jobs, one at a time. */
export function serveJobs<Job, Done>(work: (job: Job) => Done | Promise<Done>): void {
  const tell = (reply: Reply<Done | null>): void => void process.send?.(reply)
  process.on('message', async (job) => {
    try {
      tell({ done: await work(job as Job) })
    } catch (error) {
      tell({ failed: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  })
  // The bench has ended, normally or not.
  process.on('disconnect', () => process.exit())
  tell({ done: null })
}

// A single turn of load on a server: its rate, and its cost to the server.

/** A server that is loaded: where it listens, the process that answers, and the database behind it, if it has one. */
export type Server = { url: string; pid: number; database?: string }
export type Load = (server: Server, job: Omit<LoadJob, 'url'>) => Promise<Figures>

/** Starts the process that makes the calls; it keeps a core of its own busy. A call that fails fails the turn. */
export async function startLoad(stage: Pick<Stage, 'after'>): Promise<Load> {
  const helper = await startHelper<LoadJob, LoadDone>(stage, 'load.ts')
  return async ({ url, pid, database = '' }, job) => {
    const [before, databaseBefore] = [cpuUsOf(pid), databaseCpuUs(database)]
    const { answered, errors, seconds } = await helper.ask({ ...job, url })
    if (errors > 0) throw new Error(`${errors} calls of ${job.method} ${job.path} failed`)
    return known({
      per_second: answered / seconds,
      cpu_us: (cpuUsOf(pid) - before) / answered,
      server_us: (databaseCpuUs(database) - databaseBefore) / answered,
      resident_mib: residentMib(pid),
    })
  }
}

/** The floor of a call: a server that answers and does nothing else. */
export async function startBare(stage: Pick<Stage, 'after'>, kind: 'node:http' | 'h3'): Promise<Server> {
  const helper = await startHelper<object, string>(stage, 'floors/http.ts', [kind])
  return { url: await helper.ask({}), pid: helper.pid }
}

// The floor of a transaction: a hand-written loop of prepared statements on the product's own schema, equally durable.

export type RawJob = {
  /** `rows` reads every table. */
  work: 'confirm' | 'plan' | 'poll' | 'pass' | 'rows'
  /** A migrated database that nobody else uses. */
  database: string
  /** The number of transactions: confirmations, plans, polls; for a pass, of plans; for `rows`, of tables. */
  count: number
  /** The number of transactions that share a commit. */
  perCommit: number
  /** On a server: the number of concurrent transactions, each on a connection of its own; else one. */
  connections?: number
}
type RawDone = { ms: number; cpuMs: number }

/** Starts the process that runs the loops. */
export async function startRaw(
  stage: Pick<Stage, 'after'>,
  store: StoreName,
): Promise<(job: RawJob) => Promise<Figures>> {
  const helper = await startHelper<RawJob, RawDone>(stage, `floors/${store}.ts`)
  return async (job) => {
    const before = databaseCpuUs(job.database)
    const done = await helper.ask(job)
    const serverMs = (databaseCpuUs(job.database) - before) / 1000
    return { ms: done.ms / job.count, ...forEach({ ...done, serverMs }, job.count) }
  }
}

/** The job inside that process: only `run` is measured. */
type RawRun = { run: () => void | Promise<void>; close: () => void | Promise<void> }

export function serveRaw(open: (job: RawJob) => RawRun | Promise<RawRun>): void {
  serveJobs(async (job: RawJob): Promise<RawDone> => {
    const { run, close } = await open(job)
    try {
      const before = process.cpuUsage()
      const begun = performance.now()
      await run()
      const ms = performance.now() - begun
      const { user, system } = process.cpuUsage(before)
      return { ms, cpuMs: (user + system) / 1000 }
    } finally {
      await close()
    }
  })
}
