// The one door to a database: from what --db names to the store that keeps it, which is loaded when it is asked for.

import { type Machine, machine as thisMachine } from '../machine.ts'
import { isServer, refuseNoAddress } from '../store/address.ts'
import type { Database } from '../store/database.ts'

/**
 * Throws usage for an impossible address. Everyone who uses a server shares its clock; a test's machine brings its own.
 */
export async function databaseOf(address: string, { clock }: Pick<Machine, 'clock'>): Promise<Database> {
  refuseNoAddress(address)
  if (isServer(address)) {
    const { serverDatabase } = await import('../store/postgres/database.ts')
    return serverDatabase(address, clock === thisMachine.clock ? null : clock)
  }
  const { fileDatabase } = await import('../store/sqlite/database.ts')
  return fileDatabase(address, clock)
}
