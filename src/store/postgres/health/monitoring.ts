// SCAFFOLD Monitoring.

import type { MonitoringStore } from '../../monitoring.ts'
import type { Connection } from '../server/connection.ts'

export function createMonitoringStore(_connection: Connection): MonitoringStore {
  return {} as MonitoringStore
}
