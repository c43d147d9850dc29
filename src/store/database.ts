// A database as a whole, before it is opened: what --db names, on a file or a server.

import type { Frozen } from '../core/frozen.ts'
import { visible } from '../core/text.ts'
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
  /** For a file: leaves the checkpoints to a thread, in a process that answers calls while it is written to. */
  checkpointsAside?: boolean
}

/**
 * Where the replaced database is now, and its log, if that could not be checkpointed into it; null for what did not
 * exist. `playedIn` are the log or journal beside the copy that were applied to it, `additions` what the schema has
 * beside that of the migrations, which does no harm.
 */
export type Replaced = {
  database: string | null
  log: string | null
  playedIn: string[]
  additions: string[]
}

type AsFile = {
  /**
   * Copies it to a file while others go on reading and writing, and returns the size of the file. Throws file_exists.
   */
  backUp(copy: string, options: { replace: boolean }): Promise<{ bytes: number }>
  /** Opens it as a copy that is to be put in place of a database. Throws file_not_found, bad_file. */
  openCopy(): Promise<OpenCopy>
  /** Puts a copy in its place, and keeps what it replaces. Throws database_moved unless `force` is given. */
  restore(restoring: Restoring, options: { now: Instant; force: boolean }): Promise<Replaced>
  /** How many lines of its list of erasures are damaged. */
  countUnreadErasures(): Promise<number>
}

/** A database that is not open. Its methods throw Problems that say what to do. */
export interface Database {
  /** As it may be shown and logged: without a password. */
  readonly shown: string
  /** The same for use from any folder. */
  readonly shownInFull: string
  /** Throws database_not_found, schema_newer, database_locked, storage_failed. */
  open(options: OpenOptions): Promise<Store>
  /** An error of the store as a Problem that says what to do; any other as it is. */
  explained(error: unknown): unknown
  /** Whether there is no database of ours yet. */
  isMissing(): Promise<boolean>
  /** Every migration and when it was applied. Changes nothing. Throws as `open` does. */
  migrationStates(): Promise<MigrationState[]>
  /**
   * Whether pending migrations would keep this process from answering: then it is better to run them in another
   * process.
   */
  readonly migratesAside: boolean
  /** What is done to a database file as a file; null on a server, where copies do the same. */
  readonly asFile: AsFile | null
  /** Null for one that is not frozen, and for a missing one. */
  frozen(): Promise<Frozen | null>
  /** Takes back one that has moved, which stays frozen; returns what it was. Throws usage for one that has not. */
  unseal(options: { now: Instant; audit: (moved: Frozen) => AuditEntry }): Promise<Frozen>
  /** What is remembered beside it of erasures (erasures.ts), and more to remember. */
  erasures(): Promise<Erasure[]>
  rememberErasures(erasures: readonly Erasure[]): Promise<void>
  /** Holds it still while it is copied. Throws as `open` does. */
  hold(options: HoldOptions): Promise<HeldSource>
  /** Creates a database in its place that nobody sees until it is published. Throws database_exists. */
  make(options: TargetOptions): Promise<NewTarget>
  /** What a write is waiting for at the moment, in words; null if nothing is known. */
  waitsFor(): Promise<string | null>
  /** Throws usage for an output that is a file of the database itself. */
  refuseOutput(file: string): void
}

// Telling the user of a slow command, once, what it is waiting for.

/** Longer than any write takes that does not wait. */
const LONG_MS = 5_000

/** Runs `work`. If that takes long, reports what the database is waiting for, if anything. */
export async function tellingOfWaits<T>(
  { waitsFor }: Pick<Database, 'waitsFor'>,
  tell: (what: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  let hasEnded = false
  const look = async (): Promise<void> => {
    // If that cannot be found out, nothing is reported: the command reports how it ends.
    const what = await waitsFor().catch(() => null)
    if (hasEnded) return
    if (what === null) timer = setTimeout(look, LONG_MS)
    else tell(visible(what))
  }
  let timer = setTimeout(look, LONG_MS)
  try {
    return await work()
  } finally {
    hasEnded = true
    clearTimeout(timer)
  }
}
