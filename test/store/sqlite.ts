// SQLite for the contract of every store.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { openStore } from '../../src/store/sqlite/open.ts'
import { openFresh } from '../support/database.ts'
import type { Backend } from './world.ts'

export const open: Backend['open'] = (place, clock) => {
  const file = join(place, 'tranche.db')
  return existsSync(file) ? openStore(file, { clock, create: false }) : openFresh(file, clock)
}
