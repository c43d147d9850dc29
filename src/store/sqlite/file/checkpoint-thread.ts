// The thread that moves the log into the database (checkpoints.ts).

import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import SQLite from 'better-sqlite3'

export type ThreadData = {
  file: string
  /** Device and inode of the file that the service has open. */
  identity: string
  /** Where the addon lies; null to let better-sqlite3 look for its own. */
  addon: string | null
  /** Set to 1 once the thread's connection is closed. */
  closed: Int32Array
}
/** To move pages while others write; the rest of them, while nobody in the service does; to close. */
export type Asked = 'move' | 'finish' | 'close'
/** That little is left; that the log begins anew; that somebody was in the way. */
export type Said = 'nearly' | 'done' | 'hindered'

type State = { busy: number; log: number; checkpointed: number }

/** How long the lock of the writers is waited for, which other processes may have. */
const LOCK_WAIT_MS = 100
/** What may be left for the moment in which writers have to wait. */
const REST_PAGES = 100
const TRIES_MAX = 4

const { file, identity, addon, closed } = workerData as ThreadData
const db = open()

const say = (said: Said): void => parentPort?.postMessage(said)

parentPort?.on('message', (asked: Asked) => {
  switch (asked) {
    case 'move':
      move()
      return say('nearly')
    case 'finish':
      return say(checkpoint('restart').busy === 0 ? 'done' : 'hindered')
    case 'close':
      db.close()
      Atomics.store(closed, 0, 1)
      Atomics.notify(closed, 0)
      parentPort?.close()
  }
})

function open(): SQLite.Database {
  const { dev, ino } = statSync(file, { bigint: true })
  // A file that was put in its place is not to be touched.
  if (`${dev} ${ino}` !== identity) throw new Error(`${file} was replaced`)
  const options = { timeout: LOCK_WAIT_MS, fileMustExist: true }
  const own = new SQLite(file, addon === null ? options : { ...options, nativeBinding: load(addon) })
  own.pragma('synchronous = full')
  return own
}

function load(name: string): string {
  const loaded: { exports: object } = { exports: {} }
  process.dlopen(loaded, name)
  return loaded.exports as unknown as string
}

/** Moves what can be moved while others write, until little is left: the rest keeps writers waiting. */
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
