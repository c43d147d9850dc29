// SCAFFOLD Clock.

import type { ClockStore } from '../../clock.ts'
import type { Connection } from '../server/connection.ts'

export function createClockStore(_connection: Connection): ClockStore {
  return {} as ClockStore
}
