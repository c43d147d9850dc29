// SCAFFOLD Executions.

import type { ExecutionStore } from '../../executions.ts'
import type { Connection } from '../server/connection.ts'

export function createExecutionStore(_connection: Connection): ExecutionStore {
  return {} as ExecutionStore
}
