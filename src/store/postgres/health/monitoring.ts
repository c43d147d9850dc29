// Monitoring's reads, each along an index, and none of them a lock.

import { backlogReader } from '../../common/health/backlog.ts'
import { marksReader } from '../../common/health/marks.ts'
import { metricsReader } from '../../common/health/metrics-reads.ts'
import { partnersReader } from '../../common/health/partners-seen.ts'
import { schedulerReader } from '../../common/health/scheduler.ts'
import { stockTaker } from '../../common/health/stock.ts'
import { type VitalParts, vitalsReader } from '../../common/health/vitals.ts'
import type { MonitoringStore } from '../../monitoring.ts'
import type { Connection } from '../server/connection.ts'
import { readerOf } from '../server/reader.ts'
import { query } from '../server/statement.ts'
import { settledExecution } from './settled.ts'
import { FIRST_AWAKE, OPEN_BY_TENANT, PARTNER_SQL } from './statements.ts'

// This uses up the number of a pass that never takes place; no other column of the row matters.
const PROBE = query<{ tick_id: bigint }>('insert into ticks (at) values (0) returning tick_id')
const TAKE_BACK = query('delete from ticks where tick_id = :tick_id')

export function createMonitoringStore(connection: Connection): MonitoringStore {
  const reader = readerOf(connection)
  const parts = vitalParts(connection)
  return {
    // Written and deleted in a transaction that commits: it goes to the log and to the disk, so a full disk is noticed,
    // but nobody ever sees the row.
    probeWrite: () =>
      connection.probe(async (tx) => {
        const probe = await tx.get(PROBE)
        await tx.run(TAKE_BACK, { tick_id: probe?.tick_id })
      }),

    ...marksReader(reader, () => settledExecution(connection)),
    ...metricsReader(reader),
    readScheduler: parts.readScheduler,
    readBacklog: backlogReader(reader, OPEN_BY_TENANT),
    takeStock: stockTaker(reader),
    readVitals: vitalsReader(reader, parts),
    // A server looks after its own log, and keeps more of it than would be normal for a file.
    walBytes: async () => 0,
  }
}

/** What the vitals are read with; the check uses it too. */
export function vitalParts(connection: Connection): VitalParts {
  const reader = readerOf(connection)
  return {
    readScheduler: schedulerReader(reader, FIRST_AWAKE),
    readPartners: partnersReader(reader, PARTNER_SQL),
    // A server's disk is for its own monitoring to watch.
    readDisk: async () => null,
  }
}
