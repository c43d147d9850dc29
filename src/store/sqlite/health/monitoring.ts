// Monitoring's reads. Each goes along an index or a range of the primary key, in pages: between two pages, other
// requests get their turn, however many rows there are.

import { backlogReader } from '../../common/health/backlog.ts'
import { marksReader, NEWEST_EXECUTION } from '../../common/health/count-new-executions.ts'
import { partnersReader } from '../../common/health/partners-seen.ts'
import { metricsReader } from '../../common/health/passes-and-webhooks.ts'
import { stockTaker } from '../../common/health/plans-and-unspent-windows.ts'
import { schedulerReader } from '../../common/health/scheduler-lateness.ts'
import { type VitalParts, vitalsReader } from '../../common/health/vitals.ts'
import type { MonitoringStore } from '../../monitoring.ts'
import type { Connection } from '../file/connection.ts'
import { walBytes } from '../file/own-files.ts'
import { readerOf } from '../file/reader.ts'
import { diskReader } from './disk.ts'
import { FIRST_AWAKE, OPEN_BY_TENANT, PARTNER_SQL } from './statements.ts'

export function createMonitoringStore(connection: Connection): MonitoringStore {
  const { db, probe } = connection
  const reader = readerOf(connection)
  const sql = {
    save: db.prepare('savepoint probe'),
    probe: db.prepare('insert into ticks (at) values (0)'),
    undo: db.prepare('rollback to probe'),
    release: db.prepare('release probe'),
  }
  const parts = vitalParts(connection)
  return {
    // A savepoint that is undone inside a transaction that commits: the page still goes to the log and to the disk, so
    // a full disk is noticed, but the row was never there.
    probeWrite: () =>
      probe(() => {
        sql.save.run()
        sql.probe.run()
        sql.undo.run()
        sql.release.run()
      }),

    // Only one process writes at a time, and each write assigns higher ids than the one before.
    ...marksReader(reader, async () => (await reader.get(NEWEST_EXECUTION))?.newest ?? null),
    ...metricsReader(reader),
    readScheduler: parts.readScheduler,
    readBacklog: backlogReader(reader, OPEN_BY_TENANT),
    takeStock: stockTaker(reader),
    readVitals: vitalsReader(reader, parts),
    walBytes: async () => walBytes(db.name),
  }
}

/** What the vitals are read with; the check uses it too. */
export function vitalParts(connection: Connection): VitalParts {
  const reader = readerOf(connection)
  return {
    readScheduler: schedulerReader(reader, FIRST_AWAKE),
    readPartners: partnersReader(reader, PARTNER_SQL),
    readLost: async () => null,
    readDisk: diskReader(connection),
  }
}
