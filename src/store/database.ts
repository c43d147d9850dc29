// A database as a whole, before it is opened: what --db names, whichever store keeps it.

import type { Instant } from '../core/instant.ts'
import type { AuditEntry } from './audit.ts'
import type { HeldSource, HoldOptions, NewTarget, TargetOptions } from './copying/ends.ts'
import type { Seal } from './copying/seal-words.ts'
import type { MigrationState } from './schema-version.ts'
import type { Store } from './store.ts'

export type OpenOptions = {
  /** Begins a database where there is none; otherwise that is database_not_found. */
  create: boolean
  /** For a file: how much of it is kept in memory. */
  cacheKib?: number
  /** For a file: leaves the checkpoints to a thread, in a process that answers calls while it is written to. */
  checkpointsAside?: boolean
}

/**
 * Where the database that gave way to a copy is now, and the log that lay beside it, if that could not be folded into
 * it. Null for what was not there. And what lay beside the copy and was played into it: a log, or a journal.
 */
export type Replaced = { database: string | null; log: string | null; playedIn: string[] }

export type AsFile = {
  /** Copies it to a file while others go on reading and writing, and answers the size of that. Throws file_exists. */
  backUp(copy: string, options: { replace: boolean }): Promise<{ bytes: number }>
  /** Puts a copy in its place. What it replaces is kept. Throws database_sealed unless `force` is given. */
  restore(copy: string, options: { now: Instant; audit: AuditEntry; force: boolean }): Promise<Replaced>
}

/** Its methods throw Problems that say what to do. */
export interface Database {
  /** As it may be shown and logged: without a password. */
  readonly shown: string
  /** The same for use from any folder. */
  readonly shownInFull: string
  /** Throws database_not_found, schema_newer, database_locked, storage_failed. */
  open(options: OpenOptions): Promise<Store>
  /** An error of the store as a Problem that says what to do; any other as it is. */
  explained(error: unknown): unknown
  /** Whether nothing of ours is there yet. */
  isMissing(): Promise<boolean>
  /** Every migration with when it was applied; changes nothing. Throws as `open` does. */
  migrationStates(): Promise<MigrationState[]>
  /**
   * Whether pending migrations would keep this process from answering: then it is better to run them in another
   * process.
   */
  readonly migratesAside: boolean
  /** What is done to a file as a file. Null on a server, where a copy does the same. */
  readonly asFile: AsFile | null
  /** Where it has moved to; null for one that takes writes, and for none at all. */
  seal(): Promise<Seal | null>
  /** Lets it take writes again. Throws usage for one that is not sealed. */
  unseal(options: { now: Instant; audit: (seal: Seal) => AuditEntry }): Promise<Seal>
  /** Holds it still while it is copied. Throws as `open` does. */
  hold(options: HoldOptions): Promise<HeldSource>
  /** Begins a database in its place, which nobody sees until it is published. Throws database_exists. */
  make(options: TargetOptions): Promise<NewTarget>
  /** What holds up a write at the moment, in words; null when nothing is known to. */
  waitsFor(): Promise<string | null>
  /** Throws usage for an output that is a file of the database itself. */
  refuseOutput(file: string): void
}
