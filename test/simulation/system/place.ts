// Where a life is lived: a file, or a database on a server. A place is plain, so that another process can open it too.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Instant } from '../../../src/core/time.ts'
import type { Store } from '../../../src/store/store.ts'
import { makeDatabase, onPostgres } from './postgres.ts'
import { onSqlite } from './sqlite.ts'

/** A database is named by its own address and that of the server's, where it was made. */
export type Place = { store: 'sqlite'; file: string } | { store: 'postgres'; server: string; url: string }

/** What the simulation does to the data of a place. */
export type Access = {
  /** What --db names. */
  address: string
  open: (clock: () => Instant) => Promise<Store>
  /** Begins `work` while another connection holds what every write needs, and writes; lets go when the work waits. */
  whileLocked: <T>(work: () => Promise<T>) => Promise<T>
  /** What the data would take that breaks a rule, should the program try: tried, and taken back. */
  forbidden: () => Promise<string[]>
  /** Resolves when nothing is under way any more that a process has left behind. */
  settled: () => Promise<void>
}

export const accessTo = (place: Place): Access =>
  place.store === 'sqlite' ? onSqlite(place.file) : onPostgres(place)

/** An empty place, and how it is taken away again. */
export type Made = { place: Place; remove: () => Promise<void> }

/** `server` is the address of a server for a database there; null for a file. */
export async function makePlace(server: string | null): Promise<Made> {
  if (server !== null) {
    const { url, remove } = await makeDatabase(server)
    return { place: { store: 'postgres', server, url }, remove }
  }
  const folder = mkdtempSync(join(tmpdir(), 'tranche-simulation-'))
  return {
    place: { store: 'sqlite', file: join(folder, 'tranche.db') },
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  }
}
