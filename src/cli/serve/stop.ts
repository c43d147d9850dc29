// How serve stops: what is in flight is finished, for a while.

import type { Log } from '../../log.ts'
import type { Listeners } from './listeners.ts'

/** How long a stop waits for calls in flight before it gives up on them. */
export const DRAIN_LIMIT_MS = 30_000

type Stopping = {
  listeners: Listeners
  scheduler: { stop: () => Promise<void> } | null
  log: Log
  signal: string
  limitMs: number
}

export async function drain({ listeners, scheduler, log, signal, limitMs }: Stopping): Promise<void> {
  log.info({ signal }, 'stopping: finishing what is in flight')
  const drained = Promise.all([listeners.close(), scheduler?.stop()])
  const inTime = await Promise.race([drained.then(() => true), after(limitMs).then(() => false)])
  if (!inTime) log.warn({ waited_ms: limitMs }, 'stopped with calls still in flight')
  log.info({}, 'stopped')
}

const after = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref())
