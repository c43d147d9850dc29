// SCAFFOLD Months.

import type { MonthStore } from '../../months.ts'
import type { Connection } from '../server/connection.ts'

export function createMonthStore(_connection: Connection): MonthStore {
  return {} as MonthStore
}
