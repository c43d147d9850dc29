// One connection to one SQLite file, and the only two ways to use it: read, and write.

import SQLite from 'better-sqlite3'
import { type Instant, later } from '../../../core/instant.ts'
import { createRefusedWrites } from '../../refused-write.ts'
import { nativeBinding } from './addon.ts'
import type { Checkpoints } from './checkpoints.ts'
import { hasRoom, isDiskFull } from './disk-room.ts'
import { explained } from './error-words.ts'
import { type NameWatch, UNWATCHED } from './file-gone-watch.ts'
import { refusePlantedBeside } from './own-files.ts'
import { plannedOnce } from './plan-once.ts'
import { type SchemaLook, UNWATCHED_SCHEMA } from './schema-watch.ts'
import { onFirstUse } from './statement.ts'
import { whenFree } from './wait-for-lock.ts'
import { createWriter, type Write } from './write-queue.ts'

export type Database = SQLite.Database

export type Connection = {
  db: Database
  clock: () => Instant
  /** The time a write would have now. */
  present: () => Instant
  /** Runs `work`, which asks for one thing only, without a transaction around it. */
  look<T>(work: () => T): Promise<T>
  /** Runs `work` on one consistent snapshot. */
  read<T>(work: () => T): Promise<T>
  /**
   * Runs `work` in an immediate transaction and resolves once it is on disk; a throw undoes `work` alone. `lane` is the
   * id of the tenant on whose behalf it is done.
   */
  write: Write
  /**
   * The same for a probe, whose success says nothing about larger writes. Throws the error of a recent write that the
   * disk had no room for.
   */
  probe(work: () => void): Promise<void>
  /** Throws database_gone when the file is no longer what its name leads to. */
  lookAtName: () => void
  /** Throws schema_newer when another process has brought the file further than this program knows. */
  lookAtSchema: () => void
}

class FileDatabase extends SQLite {
  override prepare<Values extends unknown[] | object = unknown[], Row = unknown>(source: string) {
    return onFirstUse(() => super.prepare<Values, Row>(plannedOnce(source)))
  }
}

/**
 * Opens a file without waiting inside SQLite: waiting for a lock is done outside, so that the event loop stays free.
 * Throws bad_file for a log or a journal beside it that somebody else may have put there.
 */
export function openFile(file: string, { fileMustExist = false } = {}): Database {
  refusePlantedBeside(file)
  const binding = nativeBinding()
  const db = new FileDatabase(file, {
    timeout: 0,
    fileMustExist,
    ...(binding && { nativeBinding: binding as unknown as string }),
  })
  db.defaultSafeIntegers(true)
  return db
}

/** The size of the database without its log; inside a transaction, as that transaction leaves it. */
export const databaseBytes = (db: Database): number =>
  Number(db.pragma('page_count', { simple: true })) * Number(db.pragma('page_size', { simple: true }))

/**
 * `notBefore` is a lower bound for the instants of writes: no write is dated before it, wherever the clock has gone.
 */
export function connect(
  db: Database,
  clock: () => Instant,
  notBefore?: () => Instant,
  {
    watch = UNWATCHED,
    schema = UNWATCHED_SCHEMA,
    checkpoints = null,
  }: { watch?: NameWatch; schema?: SchemaLook; checkpoints?: Checkpoints | null } = {},
): Connection {
  const begin = db.prepare('begin deferred')
  // A read has nothing to commit, and a commit fails on a file that is damaged.
  const end = db.prepare('rollback')
  const snapshot = <T>(work: () => T): T => {
    watch.lookNowAndThen()
    begin.run()
    try {
      schema.lookNowAndThen()
      return work()
    } finally {
      if (db.inTransaction) end.run()
    }
  }
  const explaining = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error) => {
      throw explained(error, db.name)
    })
  const present = notBefore ? () => later(clock(), notBefore()) : clock
  const write = createWriter(db, present, { watch, schema, checkpoints })
  const refused = createRefusedWrites({ isFull: isDiskFull, isStillFull: () => !hasRoom(db.name) })
  const alone = <T>(work: () => T): T => {
    watch.lookNowAndThen()
    schema.lookNowAndThen()
    return work()
  }
  return {
    db,
    clock,
    present,
    look: (work) => explaining(whenFree(() => alone(work))),
    read: (work) => explaining(whenFree(() => snapshot(work))),
    write: (work, lane) => explaining(refused.follow(write(work, lane))),
    probe: (work) =>
      explaining(
        write(() => {
          refused.throwRecent()
          work()
        }),
      ),
    lookAtName: watch.look,
    lookAtSchema: schema.look,
  }
}
