// The PostgreSQL store as a `Database`: the operations of commands on a database on a server.

import type { Instant } from '../../core/time.ts'
import { shownAddress } from '../address.ts'
import type { Database } from '../database.ts'
import { isBegun, openStore, readMigrationStates } from './open.ts'
import { explained } from './server/errors.ts'

/** A null `clock` takes the server's, which all hosts share. */
export function serverDatabase(url: string, clock: (() => Instant) | null): Database {
  const shown = shownAddress(url)
  return {
    shown,
    shownInFull: shown,
    // The other options concern files only.
    open: ({ create }) => openStore(url, { clock, create }),
    explained: (error) => explained(error, shown),
    isMissing: async () => !(await isBegun(url)),
    migrationStates: () => readMigrationStates(url),
    // The server does the work, and this process's event loop stays free.
    migratesAside: false,
    asFile: null,
    frozen: async () => (await copying()).seenFrozen(url),
    unseal: async ({ audit }) => (await copying()).unseal(url, { clock, audit }),
    erasures: async () => (await copying()).readErasures(url),
    rememberErasures: async (erasures) => (await copying()).addErasures(url, erasures),
    hold: async (options) => (await copying()).holdServer(url, clock, options),
    make: async (options) => (await copying()).newOnServer(url, clock, options),
    async waitsFor() {
      const { heldBackFor } = await import('./server/pool.ts')
      return heldBackFor(url, shown)
    },
    refuseOutput: () => {},
  }
}

/** Loaded by the few commands that copy. */
const copying = () => import('./copy-server.ts')
