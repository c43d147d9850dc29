// Shared machinery of writes: gathering writes for one commit, refusing when the disk is full, recording polls, and
// waiting for writes at a close.

import type { Caller, Tenant } from '../core/partner.ts'
import { type Instant, MINUTE_MS } from '../core/time.ts'
import { breathe } from './statement.ts'

/** The most writes that share a commit: enough to spread the cost of a sync. */
export const COMMIT_SHARE_MAX = 64
/** How long writes that arrive together wait for more: a fraction of the sync that they then share. */
export const GATHER_MS = 2
/** After this many turns of the event loop without a new write, the wait ends: a call reaches its write after a few. */
const IDLE_TURNS_MAX = 2

/** Waits while turns of the event loop bring further writes to a queue. A write that came alone does not wait. */
export async function gather(queue: { readonly size: number }): Promise<void> {
  const end = performance.now() + GATHER_MS
  let idleTurns = 0
  for (let size = 1; queue.size > 1 && queue.size < COMMIT_SHARE_MAX && idleTurns < IDLE_TURNS_MAX; ) {
    if (performance.now() >= end) return
    idleTurns = queue.size > size ? 0 : idleTurns + 1
    size = queue.size
    await breathe()
  }
}

// Remembers a write that failed on a full disk: a probe of a single row may still succeed where that write did not.

/** How long a refusal counts when nothing is written after it. */
const REMEMBERED_MS = 60_000

type RefusedWrites = {
  /** Throws the refusal of a recent write, unless another write has succeeded since. */
  throwRecent: () => void
  /** Follows a write to its end, and remembers its error if it `isFull`. */
  follow<T>(writing: Promise<T>): Promise<T>
}

type Given = {
  isFull: (error: unknown) => boolean
  /** Whether there is still almost no space, if that can be measured. */
  isStillFull?: () => boolean
  elapsed?: () => number
}

export function createRefusedWrites({
  isFull,
  isStillFull = () => false,
  elapsed = () => performance.now(),
}: Given): RefusedWrites {
  let refused: { at: number; error: unknown } | null = null
  return {
    throwRecent() {
      if (refused && elapsed() - refused.at >= REMEMBERED_MS && !isStillFull()) refused = null
      if (refused) throw refused.error
    },
    follow: (writing) =>
      writing.then(
        (value) => {
          // A small write may have succeeded in the last free space.
          if (refused && !isStillFull()) refused = null
          return value
        },
        (error) => {
          if (isFull(error)) refused = { at: elapsed(), error }
          throw error
        },
      ),
  }
}

// Look-ups that arrive in one turn of the event loop are made together: one costs as much as many.

type Asked<Q, A> = { question: Q; resolve: (answer: A) => void; reject: (error: unknown) => void }

/** `answer` returns a result for each question, in order, found after it was asked; if it throws, all of them throw. */
export function askTogether<Q, A>(
  answer: (questions: readonly Q[]) => Promise<readonly A[]>,
): (question: Q) => Promise<A> {
  let waiting: Asked<Q, A>[] = []

  async function answerAll(): Promise<void> {
    const asked = waiting
    waiting = []
    try {
      const answers = await answer(asked.map(({ question }) => question))
      for (const [i, { resolve }] of asked.entries()) resolve(answers[i] as A)
    } catch (error) {
      for (const { reject } of asked) reject(error)
    }
  }

  return (question) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(answerAll)
      waiting.push({ question, resolve, reject })
    })
}

// Writes of a key that arrive while another is under way share the next transaction, on a server. On a file they share
// a commit anyway, and each has a transaction of its own.

/** `write` returns an outcome for each of a group, in order. When it fails, each of the group is written alone. */
export function grouped<Q, A>(
  inGroups: boolean,
  write: (caller: Caller, group: readonly Q[]) => Promise<readonly PromiseSettledResult<A>[]>,
): (caller: Caller, question: Q) => Promise<A> {
  /** By key: what waits for the group that is under way. */
  const waiting = new Map<string, Asked<Q, A>[]>()

  async function settle(caller: Caller, group: readonly Asked<Q, A>[]): Promise<void> {
    try {
      const outcomes = await write(
        caller,
        group.map(({ question }) => question),
      )
      for (const [i, { resolve, reject }] of group.entries()) {
        const outcome = outcomes[i]
        if (outcome?.status === 'fulfilled') resolve(outcome.value)
        else reject(outcome?.reason)
      }
    } catch (error) {
      if (group.length === 1) for (const { reject } of group) reject(error)
      // Not awaited: what one of them waits for, such as a lock, holds up no later group.
      else for (const one of group) void settle(caller, [one])
    }
  }

  async function settleAll(caller: Caller, key: string): Promise<void> {
    const line = waiting.get(key) ?? []
    while (line.length > 0) await settle(caller, line.splice(0, COMMIT_SHARE_MAX))
    waiting.delete(key)
  }

  return (caller, question) =>
    new Promise((resolve, reject) => {
      const asked = { question, resolve, reject }
      if (!inGroups) return void settle(caller, [asked])
      const key = `${caller.tenantId} ${caller.keyId}`
      const line = waiting.get(key)
      if (line) line.push(asked)
      else {
        waiting.set(key, [asked])
        setImmediate(settleAll, caller, key)
      }
    })
}

// Writes left when a store is closed: it waits for them, but not for long.

/** Neither another process's lock nor a silent server may keep a process that was told to stop. */
const WAIT_MAX_MS = 3_000

export async function waitAtClose(written: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, WAIT_MAX_MS)
  })
  await Promise.race([written, late])
  clearTimeout(timer)
}

// When each tenant last polled. Most polls find nothing and write nothing, so their marks are gathered in memory and
// written once a minute, for all tenants in one commit, and when the database is closed.

/** The largest age of the marks in the database. */
const WRITTEN_EVERY_MS = MINUTE_MS

/** A tenant, and the time of its last poll. */
type Polled = [tenantId: number, at: Instant]

export type PollNotes = {
  /** Records a poll in the background: no poll waits for its mark, or fails because of it. */
  note: (tenant: Tenant, now: Instant) => void
  /** Writes the recorded marks, and resolves when that is done or has failed; null when there are none. */
  flush: () => Promise<unknown> | null
}

export function createPollNotes(write: (polls: readonly Polled[]) => Promise<unknown>): PollNotes {
  const unwritten = new Map<number, Instant>()
  let writtenAt: Instant | null = null
  let underWay: Promise<unknown> | null = null
  let later: NodeJS.Timeout | undefined

  function put(): void {
    clearTimeout(later)
    later = undefined
    if (unwritten.size === 0) return
    const polls = [...unwritten]
    unwritten.clear()
    // The next polls record lost marks again, and a full disk has alarms of its own.
    const written = Promise.try(write, polls).catch(() => {})
    // Without the values, which would otherwise keep those of every earlier write in memory.
    underWay = Promise.all([underWay, written]).then(() => {})
  }

  return {
    note({ tenantId }, now) {
      unwritten.set(tenantId, now)
      if (writtenAt !== null && Math.abs(now - writtenAt) < WRITTEN_EVERY_MS) {
        // If no other poll follows, a partner that has polled would otherwise be shown as one that never did.
        later ??= setTimeout(put, WRITTEN_EVERY_MS).unref()
        return
      }
      writtenAt = now
      put()
    },
    flush() {
      put()
      return underWay
    },
  }
}
