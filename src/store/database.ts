// A database as a whole, before it is opened: a file or a server named by --db.

import type { Frozen } from '../core/frozen.ts'
import type { Instant } from '../core/time.ts'
import type {
  HeldSource,
  HoldOptions,
  NewTarget,
  OpenCopy,
  Restoring,
  TargetOptions,
} from './copy-interface.ts'
import type { Erasure } from './erasures.ts'
import type { MigrationState } from './migrations.ts'
import type { AuditEntry, Store } from './store.ts'

export type OpenOptions = {
  /** Creates a missing database instead of throwing database_not_found. */
  create: boolean
  /** For a file: how much of it is kept in memory. */
  cacheKib?: number
  /** For a file: leaves checkpoints to a thread, in a process that answers calls meanwhile. */
  checkpointsAside?: boolean
}

/**
 * The place of the replaced database, and of its log, if that could not be checkpointed into it; null if it did not
 * exist. `playedIn` are the log or journal beside the copy that were applied to it, `additions` are harmless additions
 * to the schema.
 */
export type Replaced = {
  database: string | null
  log: string | null
  playedIn: string[]
  additions: string[]
}

type AsFile = {
  /** Copies it to a file while others continue reading and writing, and returns the file's size. Throws file_exists. */
  backUp(copy: string, options: { replace: boolean }): Promise<{ bytes: number }>
  /** Opens it as a copy that is to replace a database. Throws file_not_found, bad_file. */
  openCopy(): Promise<OpenCopy>
  /** Puts a copy in its place, and keeps the replaced database. Throws database_moved unless `force` is given. */
  restore(restoring: Restoring, options: { now: Instant; force: boolean }): Promise<Replaced>
  /** How many lines of its list of erasures are damaged. */
  countUnreadErasures(): Promise<number>
}

/** A database that is not open. The Problems that its methods throw say what to do. */
export interface Database {
  /** The name for messages and logs: without a password. */
  readonly shown: string
  /** The name for use from any folder, also without a password. */
  readonly shownInFull: string
  /** Throws database_not_found, schema_newer, database_locked, storage_failed. */
  open(options: OpenOptions): Promise<Store>
  /** An error of the store as a Problem that says what to do; any other unchanged. */
  explained(error: unknown): unknown
  /** Whether there is no database of ours yet. */
  isMissing(): Promise<boolean>
  /** Every migration and when it was applied. Changes nothing. Throws as `open` does. */
  migrationStates(): Promise<MigrationState[]>
  /** Whether pending migrations would block this process's event loop, so that another process should run them. */
  readonly migratesAside: boolean
  /** Operations on a database file; null on a server, where copies take their place. */
  readonly asFile: AsFile | null
  /** Null for a database that is not frozen, or is missing. */
  frozen(): Promise<Frozen | null>
  /** Takes a moved database back, frozen, and returns its earlier state. Throws usage for one that has not moved. */
  unseal(options: { now: Instant; audit: (moved: Frozen) => AuditEntry }): Promise<Frozen>
  /** The erasures remembered beside it (erasures.ts), and more to remember. */
  erasures(): Promise<Erasure[]>
  rememberErasures(erasures: readonly Erasure[]): Promise<void>
  /** Locks it while it is copied. Throws as `open` does. */
  hold(options: HoldOptions): Promise<HeldSource>
  /** Creates a database in its place that nobody sees until it is published. Throws database_exists. */
  make(options: TargetOptions): Promise<NewTarget>
  /** The present obstacle of a waiting write, in words; null if none is known. */
  waitsFor(): Promise<string | null>
  /** Throws usage for an output that is a file of the database itself. */
  refuseOutput(file: string): void
}
