// Monitoring's reads, each along an index, and none of them a lock.

import { backlogReader } from '../../common/health/backlog.ts'
import { marksReader } from '../../common/health/count-new-executions.ts'
import { partnersReader } from '../../common/health/partners-seen.ts'
import { metricsReader } from '../../common/health/passes-and-webhooks.ts'
import { stockTaker } from '../../common/health/plans-and-unspent-windows.ts'
import { schedulerReader } from '../../common/health/scheduler-lateness.ts'
import { type VitalParts, vitalsReader } from '../../common/health/vitals.ts'
import type { MonitoringStore } from '../../monitoring.ts'
import type { Connection } from '../server/connection.ts'
import { readerOf } from '../server/reader.ts'
import { query } from '../server/statement.ts'
import { settledExecution } from './committed-up-to.ts'
import { recordedLoss } from './lost-writes.ts'
import { FIRST_AWAKE, OPEN_BY_TENANT, PARTNER_SQL } from './statements.ts'

// Under a number that no pass has and no other session gives: one of the sequence would be lost to the passes, which
// are kept by their numbers, and load balancers ask every second.
const PROBE = query('insert into ticks (tick_id, at) values (-pg_backend_pid(), 0)')
const TAKE_BACK = query('delete from ticks where tick_id = -pg_backend_pid()')

export function createMonitoringStore(connection: Connection): MonitoringStore {
  const reader = readerOf(connection)
  const parts = vitalParts(connection)
  return {
    // Written and deleted in a transaction that commits: it goes to the log and to the disk, so that a full disk shows,
    // and nobody ever sees it.
    probeWrite: () =>
      connection.probe(async (tx) => {
        await Promise.all([tx.run(PROBE), tx.run(TAKE_BACK)])
      }),

    ...marksReader(reader, () => settledExecution(connection)),
    ...metricsReader(reader),
    readScheduler: parts.readScheduler,
    readBacklog: backlogReader(reader, OPEN_BY_TENANT),
    takeStock: stockTaker(reader),
    readVitals: vitalsReader(reader, parts),
    // A server looks after its log itself, and keeps more of it than would alarm anybody on a file.
    walBytes: async () => null,
  }
}

/** What the vitals are read with, for the check as well. */
export function vitalParts(connection: Connection): VitalParts {
  const reader = readerOf(connection)
  return {
    readScheduler: schedulerReader(reader, FIRST_AWAKE),
    readPartners: partnersReader(reader, PARTNER_SQL),
    readLost: () => recordedLoss(connection),
    // The disk of a server is for its own monitoring to see.
    readDisk: async () => null,
  }
}
