// SCAFFOLD Plans.

import type { PlanStore } from '../../plans.ts'
import type { Connection } from '../server/connection.ts'

export function createPlanStore(_connection: Connection): PlanStore {
  return {} as PlanStore
}
