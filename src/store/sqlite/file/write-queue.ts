// The write queue of a connection. Writes that arrive together share one commit, and so one wait for the disk; a
// refused write undoes only itself. The tenants take turns, so that none of them can keep the others waiting.

import type { Database } from 'better-sqlite3'
import type { Instant } from '../../../core/time.ts'
import { createLanes } from '../../../lanes.ts'
import { breathe } from '../../statement.ts'
import { COMMIT_SHARE_MAX, gather } from '../../writes.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { NameWatch } from './files.ts'
import { LOCK_LOOK_MS, whenFree } from './waiting.ts'

/** After this much work, a commit takes no further write: the lock and the event loop are held no longer. */
const COMMIT_WORK_MS = 50
/** The lane of writes that belong to no tenant: an operator's, a pass's. */
const HOUSE = 0

type Job = {
  work: (now: Instant) => unknown
  resolve: (value: never) => void
  reject: (error: unknown) => void
}
/** Whether a job was done, and the call that tells its caller once that is on disk. */
type Outcome = { isDone: boolean; tell: () => void }

/** Runs `work` in the turn of its lane, a tenant's id. */
export type Write = <T>(work: (now: Instant) => T, lane?: number) => Promise<T>

export function createWriter(
  db: Database,
  clock: () => Instant,
  {
    watch,
    mayWrite,
    checkpoints,
  }: { watch: NameWatch; mayWrite: () => void; checkpoints: Checkpoints | null },
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
      lanes.getOrInsertComputed(lane, queue.open)({ work, resolve, reject })
      if (draining) return
      draining = true
      // Delayed, so that the other requests of this turn of the event loop can join the same commit.
      setImmediate(drain)
    })

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

  /** Begins a transaction: permission to write cannot change between this check and the commit. */
  function begin(): void {
    sql.begin.run()
    try {
      mayWrite()
    } catch (error) {
      if (db.inTransaction) sql.rollback.run()
      throw error
    }
  }

  // From begin to commit without an await, so that no other request's statement comes between.
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
        const outcome = attempt(job, isFirst)
        outcomes.push(outcome)
        isFirst &&= !outcome.isDone
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
    for (const { tell } of outcomes) tell()
    checkpoints?.afterCommit()
  }

  /** Whether a new transaction can begin at once after one whose first write was refused. */
  function beginsAgain(): boolean {
    try {
      begin()
      return true
    } catch {
      // Another process has the lock, or something is wrong: the next turn waits for the lock, or fails.
      return false
    }
  }

  /** Runs a job, or undoes it alone. The first needs no savepoint, which is a fifth of the cost of a large pass. */
  function attempt(job: Job, isFirst: boolean): Outcome {
    if (!isFirst) sql.save.run()
    try {
      const value = job.work(clock())
      if (!isFirst) sql.release.run()
      return { isDone: true, tell: () => job.resolve(value as never) }
    } catch (error) {
      if (isFirst) {
        if (db.inTransaction) sql.rollback.run()
      } else {
        // A full disk or a failing one makes SQLite roll back everything: then no job of the batch has happened.
        if (!db.inTransaction) throw error
        sql.undo.run()
        sql.release.run()
      }
      return { isDone: false, tell: () => job.reject(error) }
    }
  }
}

// This process's share of the write lock. SQLite gives the lock to the first process that asks while it is free, and
// others ask only every millisecond: a process that commits without a break would never leave them a chance.

/** How long the lock is held in total before others get a chance: when nobody else writes, and when others do. */
const HELD_MAX_MS = { alone: 200, shared: 20 }
/** How long that chance lasts: longer than another process waits between two tries, including what a timer adds. */
const REST_MS = 3 * LOCK_LOOK_MS
/** How long after a write by others more of their writes are expected. */
const SHARED_MS = 1_000

function createLockShare(db: Database) {
  const haveOthersWritten = watchOthers(db)
  let sharedUntil = Number.NEGATIVE_INFINITY
  let heldMs = 0
  let freeSince = Number.NEGATIVE_INFINITY

  function heldMaxMs(): number {
    if (haveOthersWritten()) sharedUntil = performance.now() + SHARED_MS
    return performance.now() < sharedUntil ? HELD_MAX_MS.shared : HELD_MAX_MS.alone
  }

  return {
    /** Resolves when this process may take the lock again. */
    async turn(): Promise<void> {
      const freeMs = performance.now() - freeSince
      if (freeMs < REST_MS) {
        if (heldMs < heldMaxMs()) return
        await new Promise((resolve) => setTimeout(resolve, REST_MS - freeMs))
      }
      heldMs = 0
    },
    /** Counts the time for which `work` holds the lock. */
    hold(work: () => void): void {
      const from = performance.now()
      work()
      freeSince = performance.now()
      heldMs += freeSince - from
    },
  }
}

/** Returns a function that tells whether another connection has committed anything since its last call. */
export function watchOthers(db: Database): () => boolean {
  const version = db.prepare<[], bigint>('pragma data_version').pluck()
  let latest: bigint | undefined
  return () => {
    const last = latest
    latest = version.get()
    return last !== undefined && latest !== last
  }
}
