// SCAFFOLD Ops page.

import type { OpsPageStore } from '../../ops-page.ts'
import type { Connection } from '../server/connection.ts'

export function createOpsPageStore(_connection: Connection): OpsPageStore {
  return {} as OpsPageStore
}
