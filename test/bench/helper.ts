// Processes of their own that do one job after another for the bench: the load, the floors, the peers.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Stage } from './row.ts'

export type Helper<Job, Done> = {
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
