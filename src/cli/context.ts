// The context of every command: its streams, its database, and the machine.

import type { Frozen } from '../core/frozen.ts'
import { visible } from '../core/text.ts'
import { type Machine, machine as thisMachine } from '../machine.ts'
import { isServer, refuseNoAddress } from '../store/address.ts'
import type { Database, OpenOptions } from '../store/database.ts'
import type { Store } from '../store/store.ts'

export type Streams = {
  out: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  err: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  in: NodeJS.ReadableStream & { isTTY?: boolean; readableEnded?: boolean }
  /** Announces a result on `out`: if it is lost, the command fails, even if the reader only left. */
  shownOnce?: (loss: Loss) => void
}

/** A result that cannot be shown again, or an action not to be repeated, and what to do if the answer was lost. */
export type Loss = { what: string; remedy: string }

export type Globals = { db: string; json: boolean; color: boolean }

export type Cli = {
  streams: Streams
  machine: Machine
  globals: () => Globals
  /** The database in --db, not opened yet. If it is the installed service's, root switches to that user. */
  database(): Promise<Database>
  /** Opens the database, runs, closes. A person at a terminal is told of waits, and of a database that has moved. */
  withStore<T>(run: (store: Store) => Promise<T>, options?: Partial<OpenOptions> & Said): Promise<T>
  /** The beginning of a command line for the same database, with the same --db. */
  self: () => string
  /** Warnings, gathered for --json. */
  warnings: string[]
  exitWith(code: number): void
  /** Ends the process in a second, if abandoned work still keeps it alive then. */
  endSoon(): void
}

/** `saysMoved`: the command itself reports a move. `runsOn`: it keeps running, and logs what it waits for. */
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

// From the address in --db to the database, whose store is loaded when it is needed.

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

/** Longer than any write takes that does not wait. */
const LONG_MS = 5_000

/** Runs `work`. If that takes long, tells once what the database is waiting for, if anything. */
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
