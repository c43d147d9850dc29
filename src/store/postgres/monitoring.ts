// What monitoring asks of a server alone, which keeps no counts as a file does (../sqlite/monitoring.ts); what is made
// of the answers is in ../health/. Each read goes along an index, and none takes a lock.

import type { ExecutionId } from '../../core/execution.ts'
import { finding, standbyWords } from '../../core/findings.ts'
import type { LostWrites } from '../../core/standstill.ts'
import { HOUR_MS } from '../../core/time.ts'
import { isLost } from '../../whole-file.ts'
import { marksReader, NEWEST_EXECUTION, type OpsSql, TRANCHE } from '../health/ops-page.ts'
import {
  firstAwake,
  lateFills,
  monitoringReader,
  type OpenRow,
  type OwnVitals,
  type PartnerSql,
  partnersPage,
} from '../health/vitals.ts'
import type { Look, MonitoringStore } from '../monitoring.ts'
import { IS_OPEN, OWN_NOW, unleasedAt } from '../sql/ledger.ts'
import { goOn, readRestored } from '../standstill.ts'
import { instant, query } from '../statement.ts'
import type { StandstillStore } from '../store.ts'
import type { Base } from '../transaction.ts'
import { within } from './driver.ts'
import { HISTORY_SQL, type History } from './server/commit.ts'
import { type Connection, UNKNOWN } from './server/connection.ts'
import { LOCK } from './server/locks.ts'

// Under a number that no pass has and no other session gives: one of the sequence would be lost to the passes, which
// are kept by their numbers, and load balancers ask every second.
const PROBE = query('insert into ticks (tick_id, at) values (-pg_backend_pid(), 0)')
const TAKE_BACK = query('delete from ticks where tick_id = -pg_backend_pid()')

export const createMonitoringStore = (connection: Connection, base: Base): MonitoringStore => ({
  // Written and deleted in a transaction that commits: it goes to the log and to the disk, so that a full disk shows,
  // and nobody ever sees it.
  probeWrite: () =>
    connection.probe(async (tx) => {
      await Promise.all([tx.run(PROBE), tx.run(TAKE_BACK)])
    }),

  ...marksReader(base, () => settledExecution(connection)),
  ...monitoringReader(base, ownVitals(connection)),
  // A server looks after its log itself, and keeps more of it than would alarm anybody on a file.
  walBytes: async () => null,
  readStandbyAway: () => standbyAway(connection),
})

export const ownVitals = (connection: Connection): OwnVitals => ({
  firstAwake: FIRST_AWAKE,
  partners: PARTNER_SQL,
  readLost: () => recordedLoss(connection),
  isLost,
  looks: [standbyLook(connection)],
  // A server's disk is watched by the server's own monitoring.
  readDisk: async () => null,
})

// Monitoring's reads in PostgreSQL's own SQL. There are no maintained counts: open executions and the outcomes of
// orders are counted along indexes.

const IS_DUE = unleasedAt(OWN_NOW)

const OPEN_BY_TENANT = query<OpenRow>(
  `select e.tenant_id, t.environment, count(*) as open, count(*) filter (where ${IS_DUE}) as due,
     min(e.created_at) filter (where ${IS_DUE}) as oldest_at
   from executions e join tenants t on t.tenant_id = e.tenant_id left join sandboxes s on s.tenant_id = e.tenant_id
   where ${IS_OPEN} group by e.tenant_id, t.environment`,
)

const FIRST_AWAKE = firstAwake('schedules s')

const PARTNER_SQL: PartnerSql = {
  open: OPEN_BY_TENANT,
  page: partnersPage({
    filled: 'o.filled',
    failed: 'o.failed',
    from: `cross join lateral (
      select count(d.usd_amount) as filled, count(*) - count(d.usd_amount) as failed from trades d
      where d.tenant_id = t.tenant_id and d.recorded_at >= (:hour::bigint + 1) * ${HOUR_MS}) o`,
  }),
  lateFills: lateFills('executions'),
}

/** The reads of the operator's page. */
export const OPS_SQL: OpsSql = {
  // Tenant by tenant, so that nothing of a test environment is ever read. The latest N of all are among the latest N of
  // each of the N tenants that fired last.
  latest: query(
    `select ${TRANCHE}
     from (select l.tenant_id, (select max(x.created_at) from executions x where x.tenant_id = l.tenant_id) as fired_at
           from tenants l where l.environment = 'live' order by fired_at desc nulls last limit :limit) n
       cross join lateral (select x.* from executions x where x.tenant_id = n.tenant_id
                           order by x.created_at desc, x.execution_id desc limit :limit) e
       join plans p on p.plan_id = e.plan_id join tenants t on t.tenant_id = n.tenant_id
     order by e.created_at desc, e.execution_id desc limit :limit`,
  ),
  prices: query(
    `select distinct on (at / :step::bigint) at, price from prices where at >= :since
     order by at / :step::bigint, at desc`,
  ),
}

// Up to which execution none is missing any more. Ids ascend with time, but are not committed in order: a write reads
// the newest id behind the gate of months (server/month-gate.ts), and assigns higher ones. So once every write that
// was behind the gate when an id was seen has ended, everything up to that id is there.

/** A write takes milliseconds. This is how often to check whether the last one has ended, for half a second in all. */
const LOOKS_MAX = 20
const LOOK_AGAIN_MS = 25

/** Any user may see these, no matter whose transaction it is. */
const BEHIND_GATE = `select virtualtransaction as writer from pg_locks
  where locktype = 'advisory' and classid = ${LOCK.all} and objid = 0 and granted
    and database = (select oid from pg_database where datname = current_database())`
const WRITERS = query<{ writer: string }>(BEHIND_GATE)
const STILL = query<{ n: bigint }>(
  `select count(*) as n from (${BEHIND_GATE}) w where w.writer = any(:writers::text[])`,
)

/** Null when there is none; undefined when a write that may give lower ids takes too long. */
async function settledExecution({ look }: Connection): Promise<ExecutionId | null | undefined> {
  const newest = (await look((tx) => tx.get(NEWEST_EXECUTION)))?.newest ?? null
  // Asked afterwards: a write that was behind the gate then either still is, or has ended.
  const writers = (await look((tx) => tx.all(WRITERS))).map(({ writer }) => writer)
  for (let looks = 0; writers.length > 0; looks++) {
    if ((await look((tx) => tx.get(STILL, { writers })))?.n === 0n) break
    if (looks === LOOKS_MAX) return undefined
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
  return newest
}

// Lost writes: what is recorded of them, and the decision to go on.

type Row = {
  lost_id: bigint
  found_at: bigint
  writes: bigint
  first_at: bigint
  last_at: bigint
  tenants: string
  server: string
}

type HistoryRow = History & { at: bigint | null; xid: string | null }

// What another process has committed is visible only once it is answered, so the newest entry of the audit log stands
// for what operators were told. Of its transaction's number, a row keeps the lower half.
const HISTORY = query<HistoryRow>(
  `select ${HISTORY_SQL}, a.at, (s.top - (s.top - a.half) % (1::bigint << 32))::text as xid
   from (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as top) s
   left join (select at, xmin::text::bigint as half from audit order by audit_id desc limit 1) a on true`,
)
const UNDECIDED = query<Row>('select * from lost_writes where decided_at is null order by lost_id')
const DECIDE = query<Row>('update lost_writes set decided_at = :now where decided_at is null returning *')

/** The recorded losses, without examining the server. */
const recordedLoss = async ({ look }: Connection): Promise<LostWrites | null> =>
  inAll(await look((tx) => tx.all(UNDECIDED)))

/** Remembers the newest entry of the audit log as if this process had written it. */
function noteAudit({ acknowledged }: Connection): (row: HistoryRow) => void {
  let noted: string | null = null
  return ({ at, xid, timeline, memory }) => {
    if (at === null || xid === null || xid === noted) return
    noted = xid
    acknowledged.note({ mark: { xid, position: UNKNOWN, timeline, memory }, at: instant(at), tenants: [] })
  }
}

export const createStandstillStore = (connection: Connection): StandstillStore => ({
  readRestored: () => connection.look((tx) => within(tx, readRestored)),
  readLostWrites: lossReader(connection),

  resume: (entry) =>
    connection.write(
      async (tx) => {
        const { real } = await tx.times
        const lost = inAll(await tx.all(DECIDE, { now: real }))
        return within(tx, (steps) => goOn(steps, entry, { lost, now: real }))
      },
      // A write that has begun to fire or to hand out has seen that it did not stand still.
      { alone: 'all' },
    ),
})

function lossReader(connection: Connection): StandstillStore['readLostWrites'] {
  const { acknowledged, look } = connection
  const note = noteAudit(connection)
  return async () => {
    const row = await look((tx) => tx.get(HISTORY))
    if (row && acknowledged.isInDoubt(row)) await acknowledged.examine()
    if (row) note(row)
    return recordedLoss(connection)
  }
}

/** Several processes find the same loss, each for the commits acknowledged to itself. */
function inAll(rows: readonly Row[]): LostWrites | null {
  const [newest] = rows.toSorted((a, b) => Number(b.lost_id - a.lost_id))
  if (!newest) return null
  const tenants = rows.flatMap(({ tenants }) => (tenants === '' ? [] : tenants.split(', ')))
  return {
    lostId: Number(newest.lost_id),
    foundAt: instant(newest.found_at),
    writes: rows.reduce((sum, { writes }) => sum + Number(writes), 0),
    firstAt: instant(least(rows.map(({ first_at }) => first_at))),
    lastAt: instant(-least(rows.map(({ last_at }) => -last_at))),
    tenants: [...new Set(tenants)].sort().join(', '),
    server: newest.server,
  }
}

const least = (numbers: readonly bigint[]): bigint => numbers.reduce((a, b) => (a < b ? a : b))

// A synchronous standby that is away: every write waits for it, and nothing says so but the server.

/** Only a superuser and members of pg_read_all_stats can see which standby counts. */
const AWAY = query<{ names: string }>(
  `select current_setting('synchronous_standby_names') as names
   where current_setting('synchronous_standby_names') <> '' and pg_has_role('pg_read_all_stats', 'usage')
     and not exists (select 1 from pg_stat_replication where sync_state in ('sync', 'quorum'))`,
)

async function standbyAway({ look }: Connection): Promise<string | null> {
  const [row] = await look((tx) => tx.all(AWAY))
  return row?.names ?? null
}

const standbyLook =
  (connection: Connection): Look =>
  async () => {
    const names = await standbyAway(connection)
    if (names === null) return []
    const next = ['tranche', 'docs', 'postgres#when-the-standby-is-away']
    return [finding({ kind: 'standby_away', subject: 'server', message: standbyWords(names), next })]
  }
