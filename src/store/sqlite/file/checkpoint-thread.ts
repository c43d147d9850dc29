// The thread that moves the log into the database (checkpoints.ts).

import { parentPort, workerData } from 'node:worker_threads'
import type { Order, Progress, ThreadData } from './checkpoints.ts'
import { type Database, openFile } from './connection.ts'
import { identityOf } from './files.ts'

type State = { busy: bigint; log: bigint; checkpointed: bigint }

/** How long to wait for the write lock, which other processes may hold. */
const LOCK_WAIT_MS = 100
/** The most pages left for the moment in which writers have to wait. */
const REST_PAGES = 100n
const TRIES_MAX = 4

const { file, identity, closed } = workerData as ThreadData
const db = open()

const report = (progress: Progress): void => parentPort?.postMessage(progress)

parentPort?.on('message', (order: Order) => {
  switch (order) {
    case 'move':
      move()
      return report('nearly')
    case 'finish':
      return report(checkpoint('restart').busy === 0n ? 'done' : 'hindered')
    case 'close':
      db.close()
      Atomics.store(closed, 0, 1)
      Atomics.notify(closed, 0)
      parentPort?.close()
  }
})

function open(): Database {
  // A file that has replaced the opened one must not be touched.
  if (identityOf(file) !== identity) throw new Error(`${file} was replaced`)
  const own = openFile(file, { fileMustExist: true })
  own.pragma(`busy_timeout = ${LOCK_WAIT_MS}`)
  own.pragma('synchronous = full')
  return own
}

/** Moves pages while others write, until little is left: the rest keeps writers waiting. */
function move(): void {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const { log, checkpointed } = checkpoint('passive')
    if (log - checkpointed <= REST_PAGES) return
  }
}

function checkpoint(how: 'passive' | 'restart'): State {
  const [state] = db.pragma(`wal_checkpoint(${how})`) as State[]
  if (!state) throw new Error('a checkpoint has no result')
  return state
}
