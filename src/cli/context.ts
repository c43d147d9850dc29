// What every command is handed: where to write, which database, which world.

import { Option } from 'commander'
import type { Machine } from '../machine.ts'
import type { Database, OpenOptions } from '../store/database.ts'
import type { Store } from '../store/store.ts'
import { tellingOfWaits } from '../store/waiting.ts'
import { databaseOf } from './database.ts'

export type Streams = {
  out: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  err: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  in: NodeJS.ReadableStream & { isTTY?: boolean }
  /**
   * Says that `out` now gets what cannot be shown again. If it cannot be written, the command fails and says so, also
   * when the reader has merely gone away. Where nobody watches `out`, there is none.
   */
  shownOnce?: (loss: Loss) => void
}

/** What cannot be shown again, and what to do if nobody has seen it. */
export type Loss = { what: string; remedy: string }

export type Globals = { db: string; json: boolean; color: boolean }

export type Cli = {
  streams: Streams
  machine: Machine
  globals: () => Globals
  /** What --db names, not opened yet. */
  database(): Promise<Database>
  /**
   * Opens the database, runs, closes. Only commands that start something new create a missing one. Whoever watches is told
   * what holds it up, except of what `runsOn` and says so in its own way.
   */
  withStore<T>(
    run: (store: Store) => Promise<T>,
    options?: Partial<OpenOptions> & { runsOn?: boolean },
  ): Promise<T>
  /** How a command line for the same database begins: it names what --db has named. */
  self: () => string
  /** What is not as it should be, gathered for --json. */
  warnings: string[]
  /** Sets the code the process ends with. */
  exitWith(code: number): void
}

export const dbOption = () =>
  new Option('--db <file>', 'the database: a file, or postgres://USER@HOST/NAME')
    .env('TRANCHE_DB')
    .default('tranche.db')

export function createCli(options: Pick<Cli, 'streams' | 'machine' | 'globals' | 'self' | 'exitWith'>): Cli {
  const database = () => databaseOf(options.globals().db, options.machine)
  return {
    ...options,
    warnings: [],
    database,
    async withStore(run, { create = false, runsOn = false, ...more } = {}) {
      const named = await database()
      const work = async () => {
        const store = await named.open({ create, ...more })
        try {
          return await run(store)
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
}
