// Everything that is read about a month, from either store.

import type { MonthStore } from '../../months.ts'
import type { Reader } from '../reader.ts'
import { activityReader } from './active-users-and-volume.ts'
import { adjustmentLines } from './adjustment-lines.ts'
import { tradeLines } from './trade-lines.ts'

export const readMonths = (reader: Reader): Omit<MonthStore, 'fixPeriod' | 'fixTenantPeriod'> => ({
  readActivity: activityReader(reader),
  ...tradeLines(reader),
  ...adjustmentLines(reader),
})
