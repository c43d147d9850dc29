// SCAFFOLD Check.

import type { CheckStore } from '../../check.ts'
import type { Connection } from '../server/connection.ts'

export function createCheckStore(_connection: Connection): CheckStore {
  return {} as CheckStore
}
