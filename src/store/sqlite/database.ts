// The SQLite store as a `Database`: what commands may do with a database that is a file.

import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Instant } from '../../core/time.ts'
import type { Database } from '../database.ts'
import { explained, refuseUnreachable } from './file/errors.ts'
import {
  appendErasures,
  countUnreadErasures,
  isMissing,
  readErasures,
  refuseDatabaseFile,
} from './file/files.ts'
import { openStore, readMigrationStates } from './open.ts'

export const fileDatabase = (file: string, clock: () => Instant): Database => ({
  shown: file,
  shownInFull: resolve(file),
  open: (options) => openStore(file, { clock, ...options }),
  explained: (error) => explained(error, file),
  async isMissing() {
    refuseUnreachable(file)
    return isMissing(file)
  },
  migrationStates: () => readMigrationStates(file),
  // SQLite applies them without giving the event loop a turn.
  migratesAside: true,
  asFile: {
    async backUp(copy, options) {
      await (await copying()).backUp(file, copy, options)
      return { bytes: statSync(copy).size }
    },
    async openCopy() {
      const { openCopy } = await import('./file/restore.ts')
      return openCopy(file)
    },
    async restore(restoring, options) {
      const { restore } = await import('./file/restore.ts')
      return restore(restoring, file, { ...options, clock })
    },
    countUnreadErasures: async () => countUnreadErasures(file),
  },
  frozen: async () => (await copying()).seenFrozen(file),
  unseal: async (options) => (await copying()).unseal(file, options),
  erasures: async () => readErasures(file),
  rememberErasures: async (erasures) => appendErasures(file, erasures),
  hold: async (options) => (await copying()).holdFile(file, clock, options),
  make: async (options) => (await copying()).newFile(file, clock, options),
  // A command that waits for a lock gives up after seconds and reports it.
  waitsFor: async () => null,
  refuseOutput: (output) => refuseDatabaseFile(output, file),
})

/** Loaded by the few commands that copy. */
const copying = () => import('./copy-file.ts')
