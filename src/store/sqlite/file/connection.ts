// One connection to one SQLite file, and the only two ways to use it: read, and write.

import type { Statement } from 'better-sqlite3'
import SQLite from 'better-sqlite3'
import { Problem } from '../../../core/problem.ts'
import { type Instant, later } from '../../../core/time.ts'
import { createLanes } from '../../../lanes.ts'
import { readMigrations } from '../../../resources.ts'
import { createSchemaWatch } from '../../migrations.ts'
import { breathe } from '../../statement.ts'
import { COMMIT_SHARE_MAX, createRefusedWrites, gather } from '../../writes.ts'
import { nativeBinding } from './addon.ts'
import type { Checkpoints } from './checkpoints.ts'
import { CHECKPOINT_PAGES } from './checkpoints.ts'
import { explained, isBusy } from './errors.ts'
import { hasRoom, isDiskFull, type NameWatch, UNWATCHED } from './files.ts'
import { refuseForeignBeside } from './wal.ts'

// Waiting while another process holds the lock, without holding up the event loop.

/** How long a read or write waits for another process before it gives up. */
export const LOCK_WAIT_MAX_MS = 15_000
/** The pause between two tries; a process that holds the lock a lot leaves it free for longer than that. */
const LOCK_LOOK_MS = 1

/** Tries `work` again for as long as another process holds the lock. Throws database_locked when it stays held. */
export async function whenFree<T>(work: () => T): Promise<T> {
  const end = performance.now() + LOCK_WAIT_MAX_MS
  for (;;) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw error
      if (performance.now() >= end) throw lockedTooLong()
    }
    await new Promise((resolve) => setTimeout(resolve, LOCK_LOOK_MS))
  }
}

const lockedTooLong = (): Problem =>
  new Problem(
    'database_locked',
    `The database stayed locked by another process for ${LOCK_WAIT_MAX_MS / 1000} s.`,
  )

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
 * For reading: a commit would not wait for the disk. Throws bad_file for a log that belongs to another file.
 */
export function openFile(file: string, { fileMustExist = false } = {}): Database {
  refuseForeignBeside(file)
  const binding = nativeBinding()
  const db = new FileDatabase(file, {
    timeout: 0,
    fileMustExist,
    ...(binding && { nativeBinding: binding as unknown as string }),
  })
  db.defaultSafeIntegers(true)
  return db
}

/** The same, for writing: a commit is on disk when it returns. */
export async function openToWrite(file: string): Promise<Database> {
  const db = openFile(file)
  try {
    await whenFree(() => commitSafely(db))
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** SQLite's compiled default leaves the last commits of a log to the next checkpoint. It reads the schema first. */
const commitSafely = (db: Database): void => void db.pragma('synchronous = full')

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

// The write queue of a connection. Writes that arrive together share one commit, and so one wait for the disk; a
// refused write undoes only itself. The tenants take turns, so that none of them can keep the others waiting.

/**
 * After this much work, a commit takes no further write, so that neither the lock nor the event loop is held for long.
 */
const COMMIT_WORK_MS = 50
/** The lane of writes that belong to no tenant: an operator's, a pass's. */
const HOUSE = 0

type Job = {
  work: (now: Instant) => unknown
  resolve: (value: never) => void
  reject: (error: unknown) => void
}
type Outcome = { job: Job } & ({ ok: true; value: unknown } | { ok: false; error: unknown })

/** Runs `work` in the turn of its lane, a tenant's id. */
type Write = <T>(work: (now: Instant) => T, lane?: number) => Promise<T>

function createWriter(
  db: Database,
  clock: () => Instant,
  { watch, schema, checkpoints }: { watch: NameWatch; schema: SchemaLook; checkpoints: Checkpoints | null },
): Write {
  const sql = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    rollback: db.prepare('rollback'),
    save: db.prepare('savepoint job'),
    release: db.prepare('release job'),
    undo: db.prepare('rollback to job'),
  }
  const queue = createLanes<Job>()
  const lanes = new Map<number, (job: Job) => void>()
  const share = createLockShare(db)
  let draining = false

  return (work, lane = HOUSE) =>
    new Promise((resolve, reject) => {
      laneOf(lane)({ work, resolve, reject })
      if (draining) return
      draining = true
      // Not at once, so that the other requests of this turn of the event loop can join the same commit.
      setImmediate(drain)
    })

  function laneOf(id: number): (job: Job) => void {
    const lane = lanes.get(id)
    if (lane) return lane
    const opened = queue.open()
    lanes.set(id, opened)
    return opened
  }

  async function drain(): Promise<void> {
    while (queue.size > 0) {
      try {
        watch.lookNowAndThen()
        await gather(queue)
        await share.turn()
        await checkpoints?.underWay()
        await whenFree(begin)
      } catch (error) {
        for (let job = queue.take(); job; job = queue.take()) job.reject(error)
        break
      }
      share.hold(commitTogether)
      // Between two commits, other requests are answered.
      if (queue.size > 0) await breathe()
    }
    draining = false
  }

  /** Begins a transaction, of a schema that this program knows. */
  function begin(): void {
    sql.begin.run()
    try {
      schema.look()
    } catch (error) {
      if (db.inTransaction) sql.rollback.run()
      throw error
    }
  }

  // From begin to commit without an await: no other request's statement can come between.
  function commitTogether(): void {
    const jobs: Job[] = []
    const outcomes: Outcome[] = []
    const begun = performance.now()
    try {
      let isFirst = true
      do {
        const job = queue.take()
        if (!job) break
        jobs.push(job)
        const outcome: Outcome = isFirst ? attemptFirst(job) : attempt(job)
        outcomes.push(outcome)
        isFirst &&= !outcome.ok
      } while (
        jobs.length < COMMIT_SHARE_MAX &&
        performance.now() - begun < COMMIT_WORK_MS &&
        queue.size > 0 &&
        (db.inTransaction || beginsAgain())
      )
      if (db.inTransaction) sql.commit.run()
      // Only now is it certain that the writes are where the next process will look for them.
      watch.look()
    } catch (error) {
      if (db.inTransaction) sql.rollback.run()
      for (const job of jobs) job.reject(error)
      return
    }
    for (const outcome of outcomes) {
      if (outcome.ok) outcome.job.resolve(outcome.value as never)
      else outcome.job.reject(outcome.error)
    }
    checkpoints?.afterCommit()
  }

  /** Whether the transaction that ended with a refused first write can have a successor at once. */
  function beginsAgain(): boolean {
    try {
      begin()
      return true
    } catch {
      // Another process has the lock, or something is wrong: the next turn waits for the lock, or fails.
      return false
    }
  }

  /**
   * Tries a write that is the first in its transaction. A rollback can undo it, so it needs no savepoint, which would
   * cost a copy of each page that is written: a fifth of a large pass.
   */
  function attemptFirst(job: Job): Outcome {
    try {
      return { job, ok: true, value: job.work(clock()) }
    } catch (error) {
      if (db.inTransaction) sql.rollback.run()
      return { job, ok: false, error }
    }
  }

  function attempt(job: Job): Outcome {
    sql.save.run()
    try {
      const value = job.work(clock())
      sql.release.run()
      return { job, ok: true, value }
    } catch (error) {
      // A full disk or a failing one makes SQLite roll back everything: then no job of the batch has happened.
      if (!db.inTransaction) throw error
      sql.undo.run()
      sql.release.run()
      return { job, ok: false, error }
    }
  }
}

// This process's share of the write lock. SQLite gives the lock to the first process that asks while it is free, and
// others ask only every millisecond: a process that commits without a break would never leave them a chance.

/**
 * How long the lock is held in total before others get a chance to take it: when nobody else writes, and when others
 * do.
 */
const HELD_MAX_MS = { alone: 200, shared: 20 }
/** How long that chance lasts: longer than another process waits between two tries, including what a timer adds. */
const REST_MS = 3 * LOCK_LOOK_MS
/** For how long after a write by others more writes of theirs are expected. */
const SHARED_MS = 1_000

type LockShare = {
  /** Resolves when this process may take the lock again. */
  turn: () => Promise<void>
  /** Counts the time that `work` holds it. */
  hold: (work: () => void) => void
}

function createLockShare(db: Database): LockShare {
  const haveOthersWritten = watchOthers(db)
  let sharedUntil = Number.NEGATIVE_INFINITY
  let heldMs = 0
  let freeSince = Number.NEGATIVE_INFINITY

  function heldMaxMs(): number {
    if (haveOthersWritten()) sharedUntil = performance.now() + SHARED_MS
    return performance.now() < sharedUntil ? HELD_MAX_MS.shared : HELD_MAX_MS.alone
  }

  return {
    async turn() {
      const freeMs = performance.now() - freeSince
      if (freeMs < REST_MS) {
        if (heldMs < heldMaxMs()) return
        await new Promise((resolve) => setTimeout(resolve, REST_MS - freeMs))
      }
      heldMs = 0
    },
    hold(work) {
      const from = performance.now()
      work()
      freeSince = performance.now()
      heldMs += freeSince - from
    },
  }
}

// What a SQLite file is set to when it is opened: how safe a commit is, what is erased, how much is kept in memory, and
// when its log is folded in.

/** How much of the file SQLite may keep in memory: plenty for passes over many plans. */
const CACHE_KIB = 32_768

export function configure(db: Database, cacheKib = CACHE_KIB): void {
  db.pragma('journal_mode = wal')
  commitSafely(db)
  db.pragma('foreign_keys = on')
  db.pragma('trusted_schema = off')
  // What is erased or replaced leaves zeros behind, not its text (docs/decisions/file.md#erasing-a-user).
  db.pragma('secure_delete = on')
  db.pragma('temp_store = memory')
  db.pragma(`cache_size = -${cacheKib}`)
  db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
}

/**
 * Removes what an `analyze` has left behind. Every statement is written for SQLite's plan without statistics
 * (docs/decisions/file.md#no-statistics); with those of a day when the tables were small, it would read whole tables.
 */
export function forgetStatistics(db: Database): void {
  const tables = db.prepare("select name from sqlite_schema where name like 'sqlite_stat%'").pluck().all()
  if (tables.length === 0) return
  for (const table of tables) db.exec(`drop table ${table}`)
  // A connection goes by what it has read until it reads the schema again; others see that the schema has changed.
  db.pragma('writable_schema = reset')
}

// What reads found, kept in this process until it may have changed: reading again costs several times as much as asking
// SQLite whether anybody wrote.

export type Memory<V> = {
  /**
   * What is known for each key, or else what `find` finds. Null is not remembered. Checks once for all of them whether
   * anybody has written. Not for use inside a transaction.
   */
  recall: (keys: readonly string[], find: (key: string) => V | null) => (V | null)[]
  /** To be called in every write of this connection that changes what is remembered: SQLite tells of others' only. */
  forget: () => void
}

/** Remembers at most so many. */
export function createMemory<V>(db: Database, most: number): Memory<V> {
  // Changes whenever another connection, in this process or another one, has committed anything at all.
  const version = db.prepare<[], bigint>('pragma data_version').pluck()
  const known = new Map<string, V>()
  let seenVersion: bigint | undefined

  return {
    recall(keys, find) {
      const now = version.get()
      if (now !== seenVersion || known.size >= most) known.clear()
      seenVersion = now
      return keys.map((key) => {
        const remembered = known.get(key)
        if (remembered !== undefined) return remembered
        // Read after the version, so it may be newer than that; the next call then forgets it.
        const found = find(key)
        if (found !== null) known.set(key, found)
        return found
      })
    },
    forget: () => known.clear(),
  }
}

// Tells whether another connection has written to the file.

/** Tells, each time it is called, whether another connection has committed anything since the last call. */
export function watchOthers(db: Database): () => boolean {
  const version = db.prepare<[], bigint>('pragma data_version').pluck()
  let latest: bigint | undefined
  return () => {
    const last = latest
    latest = version.get()
    return last !== undefined && latest !== last
  }
}

// A statement that SQLite parses when it is first used: the store has nearly two hundred, and a command uses a few.

const METHODS = ['get', 'all', 'run', 'iterate'] as const
const MODES = ['pluck', 'raw'] as const

/**
 * What the store and its tests use of a statement: get, all, run, iterate, pluck and raw. `prepare` is called once,
 * when the first of the first four is; what it throws, the method throws.
 */
function onFirstUse<S>(prepare: () => S): S {
  const modes: (typeof MODES)[number][] = []
  const statement = {} as Statement<unknown[]>
  for (const mode of MODES) {
    statement[mode] = () => {
      modes.push(mode)
      return statement
    }
  }
  for (const method of METHODS) statement[method] = (...values) => ready()[method](...values) as never

  /** From here on each method is the library's own. */
  function ready(): Statement<unknown[]> {
    const parsed = prepare() as Statement<unknown[]>
    for (const mode of modes) parsed[mode]()
    for (const method of METHODS) statement[method] = parsed[method].bind(parsed) as never
    return parsed
  }

  return statement as S
}

// Keeps SQLite from planning a statement again at each use, which it does when the plan might depend on the value of a
// parameter. A unary plus, which changes no value, hides the parameter from it
// (docs/decisions/file.md#a-statement-is-planned-once).

/** Matches what may hold a colon or a question mark that is not a parameter, and parameters. */
const PARTS = /'[^']*'|"[^"]*"|--.*|[:?]\w*/g

/** The same statement, planned once, whatever its parameters are bound to. */
export const plannedOnce = (sql: string): string =>
  sql.replace(PARTS, (part) => (part.startsWith(':') || part.startsWith('?') ? `+${part}` : part))

// Inserts many rows into one table, several per statement: SQLite sets up what a table's checks need, such as the lists
// of their `in (...)`, once per statement rather than once per row. For executions, that is 40 % of an insert.

/** Enough that more would gain nothing, and few enough that the remainder is quickly done one by one. */
const ROWS_AT_ONCE = 100

type Value = string | number | bigint | null

/** Inserts `rows` in their order. The table and its columns are the program's own words. */
export function insertRows<Column extends string>(
  db: Database,
  table: string,
  columns: readonly Column[],
): (rows: readonly Readonly<Record<Column, Value>>[]) => void {
  const place = `(${columns.map(() => '?').join(', ')})`
  const insert = (rows: number) =>
    db.prepare(`insert into ${table} (${columns.join(', ')}) values ${Array(rows).fill(place).join(', ')}`)
  const [many, one] = [insert(ROWS_AT_ONCE), insert(1)]
  return (rows) => {
    const whole = rows.length - (rows.length % ROWS_AT_ONCE)
    for (let from = 0; from < whole; from += ROWS_AT_ONCE) {
      many.run(rows.slice(from, from + ROWS_AT_ONCE).flatMap((row) => columns.map((column) => row[column])))
    }
    for (const row of rows.slice(whole)) one.run(columns.map((column) => row[column]))
  }
}

// Whether the schema is still one that this program knows: another process may have been upgraded, and have migrated
// the file, while this one has it open.

type SchemaLook = {
  /** Looks. Throws schema_newer. Inside a write nobody can migrate between the look and the commit. */
  look: () => void
  /** The same, unless the last look was just now. */
  lookNowAndThen: () => void
}

const UNWATCHED_SCHEMA: SchemaLook = { look: () => {}, lookNowAndThen: () => {} }

export function watchSchema(db: Database): SchemaLook {
  const last = db.prepare<[], string | null>('select max(name) from migrations').pluck()
  const watch = createSchemaWatch(readMigrations('sqlite'))
  const look = (): void => watch.found(last.get() ?? null)
  return {
    look,
    lookNowAndThen() {
      if (watch.isDue()) look()
    },
  }
}
