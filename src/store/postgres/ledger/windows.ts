// SCAFFOLD Windows.

import type { WindowStore } from '../../windows.ts'
import type { Connection } from '../server/connection.ts'

export function createWindowStore(_connection: Connection): WindowStore {
  return {} as WindowStore
}
