// When a disk counts as full, and how much of it is free.

import { statfsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import SQLite from 'better-sqlite3'

/** Whether there was no room for a write, or for the index of the log. */
export const isDiskFull = (error: unknown): boolean =>
  error instanceof SQLite.SqliteError && /^SQLITE_(FULL|IOERR_SHMSIZE)$/.test(error.code)

/** With less, some writes succeed and others do not. */
const ROOM_MIN_BYTES = 1_048_576

/** Whether there is room for a write beside the file; true where that cannot be determined. */
export function hasRoom(file: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dirname(resolve(file)))
    return bavail * bsize >= ROOM_MIN_BYTES
  } catch {
    return true
  }
}

/** In words, in brackets; empty where it cannot be determined. */
export function freeOn(folder: string): string {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return ` (${Math.floor((bavail * bsize) / 1024)} KiB are free)`
  } catch {
    return ''
  }
}
