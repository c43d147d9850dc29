// What a store offers to a copy: a source that holds still, and a target that nobody can see until it is whole.

import type { Instant } from '../../core/instant.ts'
import type { AuditEntry } from '../audit.ts'
import type { Store } from '../store.ts'
import type { Block } from './lines.ts'
import type { Seal } from './seal-words.ts'
import type { Table } from './tables.ts'

/**
 * When the migrations of a file were applied, which a copy of that file records as well, wherever it has been
 * meanwhile; and when the database was begun, which takes the place of the migrations that it never had.
 */
export type FileHistory = {
  begunAt: Instant
  migrations: readonly { name: string; sha256: string; appliedAt: Instant }[]
}

/** Rows, read as often as it takes. */
export type Rows = {
  count(table: Table): Promise<number>
  /** In the order of the key. */
  blocks(table: Table): AsyncIterable<Block>
}

/** A database that holds still: all of it is read at one moment. */
export type HeldSource = Rows & {
  /** Files beside it that hold a part of it: a log, a journal. */
  playedIn: string[]
  fileHistory(): Promise<FileHistory>
  seal(): Promise<Seal | null>
  /**
   * Makes it refuse every write from the moment at which it was read, and resolves when that can no longer be lost.
   * Only for a source that was asked to hold writers.
   */
  setSeal(seal: Seal): Promise<void>
  /**
   * Resolves when the seal that it has can no longer be lost: the copy that set it may not have waited for that.
   * Nothing may be read afterwards.
   */
  keepSeal(): Promise<void>
  /** The same database, to be read through the store; null when it must not be touched. */
  store: Store | null
  /** Releases it: whatever waited for it goes on. */
  release(): Promise<void>
}

/** A database in the making. */
export type NewTarget = Rows & {
  load(table: Table, blocks: AsyncIterable<Block>): Promise<void>
  /** To be called once everything is loaded: makes what is derived from the rows, and brings everything to the disk. */
  settle(rest: { fileHistory: FileHistory; seal: Seal | null }): Promise<void>
  /** The same through the store, once it is settled. */
  openStore(): Promise<Store>
  /**
   * Records the audit entry, if there is one, and gives the database its name. Returns what had that name before and
   * was kept. Throws database_exists when the name has been taken meanwhile.
   */
  publish(audit: AuditEntry | null): Promise<{ replaced: string | null; bytes: number | null }>
  /** Removes it, unless it was published. */
  close(): Promise<void>
}

export type HoldOptions = {
  /** Keeps all writers away for as long as it is held: what is then sealed is what was read. */
  fromWriters: boolean
  /** Reads a file that must stay as it is, byte for byte. */
  untouched?: boolean
}
export type TargetOptions = {
  now: Instant
  /** What may be replaced: nothing, or whatever has the name. */
  replace: boolean
}
