// The write queue of a connection. Writes that arrive together share one commit, and so one wait for the disk;
// each stands in a savepoint of its own, so that one that is refused undoes nothing but itself.

import type { Database } from 'better-sqlite3'
import type { Instant } from '../../../core/instant.ts'
import { whenFree } from './when-free.ts'

/** The most writes that share a commit: enough to spread the cost of a sync, few enough to keep the lock short. */
const COMMIT_SHARE_MAX = 64

type Job = {
  work: (now: Instant) => unknown
  resolve: (value: never) => void
  reject: (error: unknown) => void
}
type Outcome = { job: Job } & ({ ok: true; value: unknown } | { ok: false; error: unknown })

export function createWriter(
  db: Database,
  clock: () => Instant,
): <T>(work: (now: Instant) => T) => Promise<T> {
  const sql = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    rollback: db.prepare('rollback'),
    save: db.prepare('savepoint job'),
    release: db.prepare('release job'),
    undo: db.prepare('rollback to job'),
  }
  const queue: Job[] = []
  let draining = false

  return (work) =>
    new Promise((resolve, reject) => {
      queue.push({ work, resolve, reject })
      if (draining) return
      draining = true
      // Not at once: the other requests of this turn of the event loop join the same commit.
      setImmediate(drain)
    })

  async function drain(): Promise<void> {
    while (queue.length > 0) {
      try {
        await whenFree(() => sql.begin.run())
      } catch (error) {
        for (const job of queue.splice(0)) job.reject(error)
        break
      }
      commitTogether(queue.splice(0, COMMIT_SHARE_MAX))
    }
    draining = false
  }

  // From begin to commit without an await: no other request's statement can come between.
  function commitTogether(jobs: Job[]): void {
    const outcomes: Outcome[] = []
    try {
      for (const job of jobs) outcomes.push(attempt(job))
      sql.commit.run()
    } catch (error) {
      if (db.inTransaction) sql.rollback.run()
      for (const job of jobs) job.reject(error)
      return
    }
    for (const outcome of outcomes) {
      if (outcome.ok) outcome.job.resolve(outcome.value as never)
      else outcome.job.reject(outcome.error)
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
