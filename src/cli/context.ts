// What every command is handed: where to write, which database, which world.

import { Option } from 'commander'
import type { Machine } from '../machine.ts'
import type { Store } from '../store/store.ts'

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
  /** Opens the database, runs, closes. Only commands that start something new create a missing file. */
  withStore<T>(
    run: (store: Store) => Promise<T>,
    options?: { create?: boolean; cacheKib?: number; checkpointsAside?: boolean },
  ): Promise<T>
  /** How a command line for the same database begins: it names what --db has named. */
  self: () => string
  /** What is not as it should be, gathered for --json. */
  warnings: string[]
  /** Sets the code the process ends with. */
  exitWith(code: number): void
}

export const dbOption = () =>
  new Option('--db <file>', 'the database file').env('TRANCHE_DB').default('tranche.db')

export function createCli(options: Pick<Cli, 'streams' | 'machine' | 'globals' | 'self' | 'exitWith'>): Cli {
  return {
    ...options,
    warnings: [],
    async withStore(run, { create = false, ...more } = {}) {
      const { openStore } = await import('../store/sqlite/open.ts')
      const { explained } = await import('../store/sqlite/file/explain.ts')
      const { db } = options.globals()
      try {
        const store = await openStore(db, { clock: options.machine.clock, create, ...more })
        try {
          return await run(store)
        } finally {
          await store.close()
        }
      } catch (error) {
        throw explained(error, db)
      }
    },
  }
}
