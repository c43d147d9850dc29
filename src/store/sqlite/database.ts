// The SQLite store as a `Database`: what commands may do with a database that is a file.

import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Instant } from '../../core/time.ts'
import type { Database } from '../database.ts'
import { explained, refuseUnreachable } from './file/errors.ts'
import { isMissing, refuseDatabaseFile } from './file/files.ts'
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
      const { backUp } = await import('./copy-file.ts')
      await backUp(file, copy, options)
      return { bytes: statSync(copy).size }
    },
    async restore(restoring, options) {
      const { restore } = await import('./file/restore.ts')
      return restore(restoring, file, { ...options, clock })
    },
    async countUnreadErasures() {
      const { countUnreadErasures } = await import('./file/files.ts')
      return countUnreadErasures(file)
    },
  },
  async seal() {
    const { seenSeal } = await import('./copy-file.ts')
    return seenSeal(file)
  },
  async unseal(options) {
    const { unseal } = await import('./copy-file.ts')
    return unseal(file, options)
  },
  async erasures() {
    const { readErasures } = await import('./file/files.ts')
    return readErasures(file)
  },
  async rememberErasures(erasures) {
    const { appendErasures } = await import('./file/files.ts')
    appendErasures(file, erasures)
  },
  async hold(options) {
    const { holdFile } = await import('./copy-file.ts')
    return holdFile(file, clock, options)
  },
  async make(options) {
    const { newFile } = await import('./copy-file.ts')
    return newFile(file, clock, options)
  },
  // A command that waits for a lock gives up after seconds and reports it.
  waitsFor: async () => null,
  refuseOutput: (output) => refuseDatabaseFile(output, file),
})
