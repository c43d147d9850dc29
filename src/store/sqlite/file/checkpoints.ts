// Checkpoints that do not hold up calls. SQLite moves the log into the database at the end of whichever commit makes it
// too long, and the event loop does nothing else meanwhile. In a busy service, a thread does that instead, over a
// connection of its own.

import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Database } from 'better-sqlite3'
import { embedded } from '../../../resources.ts'
import { identityOf } from './files.ts'

export const THREAD_ASSET = 'threads/checkpoint.cjs'
/** Pages of write-ahead log between checkpoints: fewer, larger ones cost less under load. */
export const CHECKPOINT_PAGES = 4_000
/** When the log is this many times too long, the next commit moves it itself, whatever the thread is doing. */
const TOO_LONG = 4
/** The pause after another process kept the log from being restarted. */
const PAUSE_MS = 250
/** How long a close waits for the thread. */
const CLOSE_MS = 10_000

export type Checkpoints = {
  /** Must be awaited before every write, unless it is null: the thread is moving the last pages. */
  underWay: () => Promise<void> | null
  /** Must be called after every commit. */
  afterCommit: () => void
  /** Must be called before the database is closed. */
  close: () => void
}

/** Takes over the checkpoints of a connection. There is no thread until the log is long for the first time. */
export function takeOverCheckpoints(db: Database, file: string): Checkpoints {
  const closed = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const workerData: ThreadData = { file, identity: identityOf(file) ?? '', closed }
  const logState = db.prepare<[], [bigint, bigint, bigint]>('pragma wal_checkpoint(noop)').raw()
  let thread: Worker | null = null
  let isAtWork = false
  let isOver = false
  let last: PromiseWithResolvers<void> | null = null
  db.pragma(`wal_autocheckpoint = ${TOO_LONG * CHECKPOINT_PAGES}`)

  function onProgress(progress: Progress): void {
    if (progress === 'nearly') {
      last = Promise.withResolvers()
      thread?.postMessage('finish' satisfies Order)
      return
    }
    letWritersOn()
    if (progress === 'done') isAtWork = false
    else
      setTimeout(() => {
        isAtWork = false
      }, PAUSE_MS).unref()
  }

  function letWritersOn(): void {
    last?.resolve()
    last = null
  }

  function giveBack(): void {
    thread = null
    letWritersOn()
    if (isOver) return
    isOver = true
    db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
  }

  function isLong(): boolean {
    try {
      const [, logged] = logState.get() as [bigint, bigint, bigint]
      return logged >= CHECKPOINT_PAGES
    } catch {
      // The next call will report the problem with the file.
      return false
    }
  }

  function open(): Worker {
    const script = embedded(THREAD_ASSET)
    const opened = script
      ? new Worker(Buffer.from(script.bytes).toString(), { eval: true, workerData })
      : new Worker(join(import.meta.dirname, 'checkpoint-thread.ts'), { workerData })
    opened.unref()
    return opened.on('message', onProgress).on('error', giveBack).on('exit', giveBack)
  }

  return {
    underWay: () => last?.promise ?? null,
    afterCommit() {
      if (isAtWork || isOver || !isLong()) return
      isAtWork = true
      thread ??= open()
      thread.postMessage('move' satisfies Order)
    },
    close() {
      isOver = true
      if (!thread) return
      thread.postMessage('close' satisfies Order)
      // The last to close removes the log, and must be the owner of its note.
      Atomics.wait(closed, 0, 0, CLOSE_MS)
    },
  }
}

export type ThreadData = {
  file: string
  /** The file that the service has open. */
  identity: string
  /** Set to 1 once the thread's connection is closed. */
  closed: Int32Array
}

/** To move pages while others write; to move the rest while nobody in the service writes; to close. */
export type Order = 'move' | 'finish' | 'close'
/** Little is left; the log begins anew; another process was in the way. */
export type Progress = 'nearly' | 'done' | 'hindered'
