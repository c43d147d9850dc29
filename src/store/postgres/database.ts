// A database on a server.

import type { Instant } from '../../core/instant.ts'
import { Problem } from '../../core/problem.ts'
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
    backUp: async () => {
      throw new Problem(
        'usage',
        `${shown} is on a server: back it up with pg_dump or pg_basebackup, which ship with it.`,
      )
    },
    restore: async () => {
      throw new Problem(
        'usage',
        `${shown} is on a server: bring it back with pg_restore, which ships with it.`,
      )
    },
    refuseOutput: () => {},
  }
}
