// SCAFFOLD Status.

import type { StatusStore } from '../../status.ts'
import type { Connection } from '../server/connection.ts'

export function createStatusStore(_connection: Connection): StatusStore {
  return {} as StatusStore
}
