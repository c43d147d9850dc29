// The context of every command: its streams, its database, and the machine.

import type { Frozen } from '../core/frozen.ts'
import { type Machine, machine as thisMachine } from '../machine.ts'
import { isServer, refuseNoAddress } from '../store/address.ts'
import { type Database, type OpenOptions, tellingOfWaits } from '../store/database.ts'
import type { Store } from '../store/store.ts'

export type Streams = {
  out: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  err: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  in: NodeJS.ReadableStream & { isTTY?: boolean; readableEnded?: boolean }
  /**
   * Announces that `out` now gets something that cannot be shown again, or that must not be done again. If it cannot be
   * written, the command fails and reports it, even when the reader has merely gone away. Absent where nobody watches
   * `out`.
   */
  shownOnce?: (loss: Loss) => void
}

/** Something that cannot be shown or must not be done again, and what to do if its answer was lost. */
export type Loss = { what: string; remedy: string }

export type Globals = { db: string; json: boolean; color: boolean }

export type Cli = {
  streams: Streams
  machine: Machine
  globals: () => Globals
  /** What --db names, not opened yet. Where that is the installed service's, root becomes its user. */
  database(): Promise<Database>
  /**
   * Opens the database, runs, closes. Only commands that start something new create a missing database. A person at a
   * terminal learns what the command waits for, and that a database has moved.
   */
  withStore<T>(run: (store: Store) => Promise<T>, options?: Partial<OpenOptions> & Said): Promise<T>
  /** How a command line for the same database begins: it repeats what --db has named. */
  self: () => string
  /** Warnings, gathered for --json. */
  warnings: string[]
  /** Sets the code the process ends with. */
  exitWith(code: number): void
  /** Ends the process in a second, if abandoned work still keeps it alive then. */
  endSoon(): void
}

/**
 * `saysMoved`: the command itself reports that a database has moved. `runsOn`: it keeps running, and logs what it waits
 * for.
 */
type Said = { saysMoved?: boolean; runsOn?: boolean }

type Given = Pick<Cli, 'streams' | 'machine' | 'globals' | 'self' | 'exitWith' | 'endSoon'> & {
  /** Called before the database of --db is named. */
  become: () => void
  /** Called when a command has read a database that has moved. */
  onMoved: (cli: Cli, frozen: Frozen) => void
}

export function createCli({ onMoved, become, ...options }: Given): Cli {
  const database = async () => {
    become()
    return databaseOf(options.globals().db, options.machine)
  }

  /** Runs, and reports it if the database that was read has moved. A write to it is refused with the same message. */
  async function heeding<T>(store: Store, saysMoved: boolean, run: (store: Store) => Promise<T>): Promise<T> {
    let isTold = saysMoved
    try {
      return await run(store)
    } catch (error) {
      isTold ||= (error as { code?: unknown }).code === 'database_moved'
      throw error
    } finally {
      // A database whose state cannot be read has other problems, which are reported.
      const frozen = isTold ? null : await store.readFrozen().catch(() => null)
      if (frozen?.kind === 'moved') onMoved(cli, frozen)
    }
  }

  const cli: Cli = {
    ...options,
    warnings: [],
    database,
    async withStore(run, { create = false, saysMoved = false, runsOn = false, ...more } = {}) {
      const named = await database()
      const work = async () => {
        const store = await named.open({ create, ...more })
        try {
          return await heeding(store, saysMoved, run)
        } finally {
          await store.close()
        }
      }
      try {
        if (runsOn || options.globals().json) return await work()
        return await tellingOfWaits(named, (what) => options.streams.err.write(`${what}\n`), work)
      } catch (error) {
        throw named.explained(error)
      }
    },
  }
  return cli
}

// From the name in --db to the database, whose store is loaded when it is needed.

/** Throws usage for an impossible address. All processes on a server share its clock; a test's machine has its own. */
export async function databaseOf(address: string, { clock }: Pick<Machine, 'clock'>): Promise<Database> {
  refuseNoAddress(address)
  if (isServer(address)) {
    const { serverDatabase } = await import('../store/postgres/database.ts')
    return serverDatabase(address, clock === thisMachine.clock ? null : clock)
  }
  const { fileDatabase } = await import('../store/sqlite/database.ts')
  return fileDatabase(address, clock)
}
