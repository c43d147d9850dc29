// SCAFFOLD Passes.

import type { PassStore } from '../../passes.ts'
import type { Connection } from '../server/connection.ts'

export function createPassStore(_connection: Connection): PassStore {
  return {} as PassStore
}
