// PostgreSQL for the contract of every store: each place is a database of its own.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openStore } from '../../src/store/postgres/open.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import type { Backend } from './world.ts'

export const open: Backend['open'] = async (place, clock) => {
  // Other threads and processes find it by the file that the first has left.
  const note = join(place, 'address')
  if (!existsSync(note)) writeFileSync(note, await ownDatabase(place))
  return openStore(readFileSync(note, 'utf8'), { clock, create: false })
}
