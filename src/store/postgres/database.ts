// The PostgreSQL store as a `Database`: what commands may do with a database on a server.

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
    // What else may be asked of a file means nothing to a server.
    open: ({ create }) => openStore(url, { clock, create }),
    explained: (error) => explained(error, shown),
    isMissing: async () => !(await isBegun(url)),
    migrationStates: () => readMigrationStates(url),
    // The server works on them, and this process goes on.
    migratesAside: false,
    asFile: null,
    async seal() {
      const { seenSeal } = await import('./copy-server.ts')
      return seenSeal(url)
    },
    async unseal({ audit }) {
      const { unseal } = await import('./copy-server.ts')
      return unseal(url, { clock, audit })
    },
    async erasures() {
      const { readErasures } = await import('./copy-server.ts')
      return readErasures(url)
    },
    async rememberErasures(erasures) {
      const { addErasures } = await import('./copy-server.ts')
      await addErasures(url, erasures)
    },
    async hold(options) {
      const { holdServer } = await import('./copy-server.ts')
      return holdServer(url, clock, options)
    },
    async make(options) {
      const { newOnServer } = await import('./copy-server.ts')
      return newOnServer(url, clock, options)
    },
    async waitsFor() {
      const { heldBackFor } = await import('./server/pool.ts')
      return heldBackFor(url, shown)
    },
    refuseOutput: () => {},
  }
}
