// How serve stops: what is in flight is finished, for a while, and nothing keeps the process alive after that.

import type { Log } from '../../log.ts'
import type { Listeners } from './listeners.ts'

/** How long a stop waits for calls in flight before it gives up on them. */
export const DRAIN_LIMIT_MS = 30_000
/** How long work that was given up on may still take to end by itself. */
const LINGER_MS = 1_000

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

/** Ends the process if something that was given up on keeps it alive. This timer does not. */
export function endLingering(): void {
  setTimeout(() => process.exit(), LINGER_MS).unref()
}
