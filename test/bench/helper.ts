// Processes of their own that do one job after another for the bench, the load, the floors and the peers; and what is
// asked of the load and of the floors.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Raw, RawDone, RawJob, StoreName } from './backend.ts'
import type { LoadDone, LoadJob } from './load.ts'
import { cpuUsOf, databaseCpuUs, known, residentMib } from './program.ts'
import type { Figures, Stage } from './row.ts'

type Helper<Job, Done> = {
  pid: number
  /** Rejects with what the process says that went wrong, or when it ends. */
  ask: (job: Job) => Promise<Done>
}

type Reply<Done> = { done: Done } | { failed: string }

/** Starts a script that ends with `serveJobs`; it is ended with the stage. */
export async function startHelper<Job, Done>(
  stage: Pick<Stage, 'after'>,
  script: string,
  argv: readonly string[] = [],
): Promise<Helper<Job, Done>> {
  const child: ChildProcess = fork(script, argv, {
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

/** In the process itself: says that it is there, and then does what it is asked, one job at a time. */
export function serveJobs<Job, Done>(work: (job: Job) => Done | Promise<Done>): void {
  const tell = (reply: Reply<Done | null>): void => void process.send?.(reply)
  process.on('message', async (job) => {
    try {
      tell({ done: await work(job as Job) })
    } catch (error) {
      tell({ failed: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  })
  // The bench is gone, however it went.
  process.on('disconnect', () => process.exit())
  tell({ done: null })
}

// One turn of load on a server: what its callers saw, and what it cost the server.

/** A server that is loaded: where it listens, the process that answers, and the database behind it, if it has one. */
export type Server = { url: string; pid: number; database?: string }
export type Load = (
  server: Server,
  job: Omit<LoadJob, 'url' | 'keepsTimes'> & {
    /** Is handed what each call took, in milliseconds. */
    onTimes?: (ms: readonly number[]) => void
  },
) => Promise<Figures>

/** Starts the process that makes the calls; it keeps a core of its own busy. */
export async function startLoad(stage: Pick<Stage, 'after'>): Promise<Load> {
  const helper: Helper<LoadJob, LoadDone> = await startHelper(stage, join(import.meta.dirname, 'load.ts'))
  return async ({ url, pid, database = '' }, { onTimes, ...job }) => {
    const cpuBefore = cpuUsOf(pid)
    const databaseBefore = databaseCpuUs(database)
    const done = await helper.ask({ ...job, url, keepsTimes: onTimes !== undefined })
    const { answered, errors, seconds, p50Ms, p99Ms } = done
    onTimes?.(done.timesMs)
    const cpuUs = cpuUsOf(pid) - cpuBefore
    return known({
      per_second: answered / seconds,
      p50_ms: p50Ms,
      p99_ms: p99Ms,
      cpu_us: cpuUs / answered,
      busy: cpuUs / seconds / 1e6,
      server_us: (databaseCpuUs(database) - databaseBefore) / answered,
      resident_mib: residentMib(pid),
      errors,
    })
  }
}

type Polled = { ids: string[]; timesMs: number[] }

/** Polls until nothing remains. Throws on any answer but 200. */
export async function pollAll({ url }: Pick<Server, 'url'>, key: string): Promise<Polled> {
  const polled: Polled = { ids: [], timesMs: [] }
  for (;;) {
    const begun = performance.now()
    const response = await fetch(`${url}/partner/v1/executions/due`, {
      headers: { authorization: `Bearer ${key}` },
    })
    const page = (await response.json()) as { execution_id: string }[]
    polled.timesMs.push(performance.now() - begun)
    if (response.status !== 200) throw new Error(JSON.stringify(page))
    for (const { execution_id } of page) polled.ids.push(execution_id)
    if (response.headers.get('x-due-remaining') === '0') return polled
  }
}

// The floors of a call: servers that answer and do nothing else, or only what every call needs, each in a process of
// its own.

export async function startBare(stage: Stage, kind: 'node:http' | 'h3' | 'h3 with duties'): Promise<Server> {
  const script = join(import.meta.dirname, 'floors/http.ts')
  const helper = await startHelper<object, string>(stage, script, [kind, join(stage.folder, 'floor.log')])
  return { url: await helper.ask({}), pid: helper.pid }
}

// One turn of a hand-written loop on a database of ours: the floor of a transaction.

/** Starts the process that runs the loops. */
export async function startRaw(stage: Pick<Stage, 'after'>, store: StoreName): Promise<Raw> {
  const script = join(import.meta.dirname, `floors/${store}.ts`)
  const helper = await startHelper<RawJob, RawDone>(stage, script)
  return async (job) => {
    const before = databaseCpuUs(job.database)
    const { ms, cpuMs } = await helper.ask(job)
    return known({
      per_second: (1000 * job.count) / ms,
      ms: ms / job.count,
      cpu_us: (1000 * cpuMs) / job.count,
      server_us: (databaseCpuUs(job.database) - before) / job.count,
    })
  }
}

/** What the loops on a file and on a server make of a job: ready to run. Only `run` is measured. */
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

/** The trades of a month as one statement that both stores speak, in the order and with the columns of the export. */
export const TRADES_BY_HAND = `select d.recorded_at, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id,
    d.execution_id, d.partner_order_id, d.status, d.usd_amount, d.btc_amount, d.execution_price, d.partner_fee_usd,
    d.executed_at, d.failure_reason
  from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
    join plans p on p.plan_id = d.plan_id
  order by d.recorded_at, d.execution_id`
