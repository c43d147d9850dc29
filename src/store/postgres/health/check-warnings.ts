// What the check warns of on PostgreSQL alone: settings of the server, and what holds it up.

import { spellBytes } from '../../../core/bytes.ts'
import { counted } from '../../../core/counted.ts'
import { spellSpan } from '../../../core/duration-words.ts'
import { type Finding, ticket } from '../../../core/findings.ts'
import { HOUR_MS, MINUTE_MS } from '../../../core/instant.ts'
import { namedInCommand } from '../../address.ts'
import type { WindowStore } from '../../bring-back-windows.ts'
import type { CheckStore, Look } from '../../check.ts'
import { IMPORT_ROWS, importLeft, warningsOf } from '../../common/health/warnings.ts'
import { NOW_SQL } from '../server/clock.ts'
import type { Connection } from '../server/connection.ts'
import { LOCK } from '../server/locks.ts'
import { queryOf, readerOf } from '../server/reader.ts'
import { type Params, type Query, query } from '../server/statement.ts'
import { vitalParts } from './monitoring.ts'

/** An idle transaction is suspect sooner than one at work, such as a dump of the database. */
const IDLE_MAX_MS = 5 * MINUTE_MS
const WORKING_MAX_MS = 6 * HOUR_MS
/** Half of all transaction numbers: long before the server refuses work, and long after it should have cleaned up. */
const AGE_MAX = 1_000_000_000

export function createWarnings(
  connection: Connection,
  listAhead: WindowStore['listAhead'],
): CheckStore['findWarnings'] {
  const { clock, look } = connection
  return warningsOf(readerOf(connection), {
    clock: () => look((tx) => clock.now(tx)),
    vitals: vitalParts(connection),
    listAhead,
    looks: [...serverLooks(connection), leftImport(connection)],
  })
}

/** A question about the server, and what each row of the answer means. */
const serverLooks = ({ look, server, clock }: Connection): Look[] => {
  const asking =
    <Row>(statement: Query<Row>, params: Params, found: (row: Row) => Finding): Look =>
    async () =>
      (await look((tx) => tx.all(statement, { clock: clock.parameter(), ...params }))).map(found)
  const psql = (command: string): string[] => ['psql', namedInCommand(server), '-c', command]
  return [
    asking(UNREPLICATED, {}, () =>
      ticket(
        'standby_missing',
        'server',
        'waits for no standby: what it has confirmed is on this one disk alone (synchronous_standby_names)',
        { next: psql('table pg_stat_replication') },
      ),
    ),
    asking(UNSUMMED, {}, () =>
      ticket(
        'checksums_off',
        'server',
        'was set up without checksums: a page that its disk gives back changed is believed (initdb --data-checksums, or pg_checksums --enable while the server is stopped)',
        { next: psql('show data_checksums') },
      ),
    ),
    asking(AWAY, {}, ({ names }) =>
      ticket(
        'standby_away',
        'server',
        `waits for a standby (synchronous_standby_names = ${names}), and none that counts is connected: no commit ends`,
        { next: psql('table pg_stat_replication') },
      ),
    ),
    asking(WRAPAROUND, { most: AGE_MAX }, ({ name, age }) =>
      ticket(
        'wraparound_near',
        `database ${name}`,
        `its oldest transaction is ${age} transactions old, and at two billion the server stops taking writes: is autovacuum held up?`,
        { next: psql('vacuum (freeze, verbose)') },
      ),
    ),
    asking(SLOTS, {}, ({ name, active, bytes }) =>
      ticket(
        'slot_behind',
        `replication slot ${name}`,
        `${active ? 'is in use' : 'is not in use'} and holds back ${spellBytes(Number(bytes))} of the server's log, which fills its disk`,
        { next: psql('table pg_replication_slots') },
      ),
    ),
    asking(LONG, { idle: IDLE_MAX_MS, working: WORKING_MAX_MS }, ({ pid, name, state, ms }) =>
      ticket(
        'transaction_long',
        `process ${pid}`,
        `a transaction of ${name || 'a client without a name'} has been open for ${spellSpan(Number(ms))} (${state}) and keeps the server from cleaning up`,
        { next: psql(`select pg_terminate_backend(${pid})`) },
      ),
    ),
    asking(DEADLOCKS, {}, ({ name, n, since }) =>
      ticket(
        'deadlocks',
        `database ${name}`,
        `${counted(Number(n), 'deadlock')} since ${since ?? 'its beginning'}: tranche tries again, but should cause none itself; the server's log names the statements`,
        { next: psql('select pg_stat_reset()') },
      ),
    ),
  ]
}

const UNREPLICATED = query<{ names: string }>(
  `select current_setting('synchronous_standby_names') as names
   where current_setting('synchronous_standby_names') = ''`,
)
const UNSUMMED = query(`select 1 where current_setting('data_checksums') <> 'on'`)
/** Only a superuser and members of pg_read_all_stats can see which standby counts. */
const AWAY = query<{ names: string }>(
  `select current_setting('synchronous_standby_names') as names
   where current_setting('synchronous_standby_names') <> '' and pg_has_role('pg_read_all_stats', 'usage')
     and not exists (select 1 from pg_stat_replication where sync_state in ('sync', 'quorum'))`,
)
const WRAPAROUND = query<{ name: string; age: bigint }>(
  `select datname::text as name, greatest(age(datfrozenxid), mxid_age(datminmxid))::bigint as age from pg_database
   where datname = current_database() and greatest(age(datfrozenxid), mxid_age(datminmxid)) > :most`,
)
/** More of the log than the server would keep on its own. */
const SLOTS = query<{ name: string; active: boolean; bytes: bigint }>(
  `select * from (
     select slot_name::text as name, active, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint as bytes
     from pg_replication_slots) s
   where s.bytes > pg_size_bytes(current_setting('max_wal_size')) order by s.name`,
)
/** Only a superuser and members of pg_read_all_stats can see the times of other users' transactions. */
const LONG = query<{ pid: bigint; name: string; state: string; ms: bigint }>(
  `select * from (
     select pid, application_name as name, state,
       ${NOW_SQL} - floor(extract(epoch from xact_start) * 1000)::bigint as ms
     from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()) a
   where a.ms > case when a.state like 'idle in transaction%' then :idle::bigint else :working::bigint end
   order by a.ms desc`,
)
const DEADLOCKS = query<{ name: string; n: bigint; since: string | null }>(
  `select datname::text as name, deadlocks as n,
     to_char(stats_reset at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as since
   from pg_stat_database where datname = current_database() and deadlocks > 0`,
)

const IMPORT = queryOf(IMPORT_ROWS)
/** No import is running: it would hold this lock for as long as it runs. */
const NO_IMPORT = query<{ free: boolean }>(`select pg_try_advisory_xact_lock(${LOCK.import}, 0) as free`)

const leftImport =
  ({ read }: Connection): Look =>
  () =>
    read(async (tx) => {
      const rows = (await tx.get(IMPORT))?.n ?? 0n
      return rows > 0n && (await tx.get(NO_IMPORT))?.free ? [importLeft(rows)] : []
    })
