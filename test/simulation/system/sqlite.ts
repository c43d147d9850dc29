// The store of the simulation on SQLite.

import { openFile } from '../../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../../src/store/sqlite/open.ts'
import type { SystemOptions } from './system.ts'

export const onSqlite = (file: string): Pick<SystemOptions, 'open' | 'holdLock'> => ({
  open: (clock) => openStore(file, { clock, create: true }),
  holdLock() {
    const db = openFile(file)
    db.exec('begin immediate')
    // Something is written, so that whoever read before it has an old view of the file.
    db.exec('update partners set updated_at = updated_at + 1 - 1')
    return () => {
      db.exec('commit')
      db.close()
    }
  },
})
