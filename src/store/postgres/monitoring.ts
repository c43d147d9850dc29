// Reads of monitoring and the check that only a server needs, since it keeps no counts as a file does
// (../sqlite/monitoring.ts); ../health/ interprets the results. Each read of monitoring goes along an index, and none
// takes a lock.

import type { ExecutionId } from '../../core/execution.ts'
import { finding, guideTo, standbyWords } from '../../core/findings.ts'
import { HOUR_MS, type Instant } from '../../core/time.ts'
import { isLost } from '../../whole-file.ts'
import { namedInCommand } from '../address.ts'
import type { OwnMonitoring } from '../assemble.ts'
import { checkedRules, FINDINGS_PER_RULE_MAX } from '../health/check.ts'
import { NEWEST_EXECUTION, type OpsSql, pricePointOf, TRANCHE, trancheOf } from '../health/ops-page.ts'
import { compareSchemas, type Part, type SchemaDifferences } from '../health/schema.ts'
import { firstAwake, lateFills, type PartnerSql, partnersPage } from '../health/vitals.ts'
import type { Fault, Look } from '../monitoring.ts'
import { countOf, query } from '../statement.ts'
import type { Base } from '../transaction.ts'
import type { Connection } from './server/connection.ts'
import { explained } from './server/errors.ts'
import { LOCK } from './server/locks.ts'
import { bringUp, SCHEMA } from './server/migrate.ts'
import { type Asked, firstColumn } from './server/session.ts'

// Uses a number that no pass has and no other session uses. A number of the sequence would be missing from the passes,
// which are kept by their numbers, and load balancers ask every second.
const PROBE = query('insert into ticks (tick_id, at) values (-pg_backend_pid(), 0)')
const TAKE_BACK = query('delete from ticks where tick_id = -pg_backend_pid()')

export const ownMonitoring = (connection: Connection, base: Base): OwnMonitoring => ({
  // Written and deleted in a transaction that commits: it reaches the disk, and nobody ever sees the row.
  probeWrite: () =>
    connection.probe(async (tx) => {
      await Promise.all([tx.run(PROBE), tx.run(TAKE_BACK)])
    }),
  settledExecution: () => settledExecution(connection),
  // A server manages its log itself, and keeps more of it than would be normal on a file.
  walBytes: async () => null,
  readStandbyAway: () => standbyAway(connection),
  vitals: {
    firstAwake: FIRST_AWAKE,
    partners: PARTNER_SQL,
    isLost,
    looks: [standbyAwayLook(connection), standbyGoneLook(connection)],
    // A server's disk is watched by the server's own monitoring.
    readDisk: async () => null,
  },
  faults: {
    schema: {
      compare: () => differencesOf(connection),
      next: ['psql', connection.server, '-c', `\\d ${SCHEMA}.*`],
    },
    looks: [
      ['integrity', () => base.look((tx) => tx.all(INTEGRITY))],
      ['foreign_key', () => base.look((tx) => tx.all(DANGLING), { reads: 'whole' })],
    ],
    rules: RULES,
    unreadable: (kind, { message }) => `cannot be read where ${kind} is looked for: ${message}`,
  },
  opsSql: OPS_SQL,
})

// Monitoring's reads in PostgreSQL's own SQL. The outcomes of orders are counted along an index.

const FIRST_AWAKE = firstAwake('schedules s')

const PARTNER_SQL: PartnerSql = {
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
const OPS_SQL: OpsSql = {
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
    trancheOf,
  ),
  prices: query(
    `select distinct on (at / :step::bigint) at, price from prices where at between :since and :until
     order by at / :step::bigint, at desc`,
    pricePointOf,
  ),
}

// The newest execution below which none is missing. Ids ascend with time, but are not committed in order: a write reads
// the newest id behind the gate of months (server/month-gate.ts), and assigns higher ones. So once every write that was
// behind the gate when an id was seen has ended, all executions up to that id are there.

/** A write takes milliseconds. This is how often to check whether the last one has ended, for half a second in all. */
const LOOKS_MAX = 20
const LOOK_AGAIN_MS = 25

/** Any user may see these, no matter whose transaction it is. */
const BEHIND_GATE = `select virtualtransaction as writer from pg_locks
  where locktype = 'advisory' and classid = ${LOCK.all} and objid = 0 and granted
    and database = (select oid from pg_database where datname = current_database())`
const WRITERS = query(BEHIND_GATE, ({ writer }: { writer: string }) => writer)
const STILL = query(
  `select count(*) as n from (${BEHIND_GATE}) w where w.writer = any(:writers::text[])`,
  countOf,
)

/** Null when there is none; undefined when a write that may give lower ids takes too long. */
async function settledExecution({ look }: Connection): Promise<ExecutionId | null | undefined> {
  const newest = (await look((tx) => tx.get(NEWEST_EXECUTION))) ?? null
  // Asked afterwards: a write that was behind the gate then either still is, or has ended.
  const writers = await look((tx) => tx.all(WRITERS))
  for (let looks = 0; writers.length > 0; looks++) {
    if ((await look((tx) => tx.get(STILL, { writers }))) === 0) break
    if (looks === LOOKS_MAX) return undefined
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
  return newest
}

// An absent synchronous standby: every write waits for it, and only the server shows that.

/** Only a superuser and members of pg_read_all_stats can see which standby counts. */
const AWAY = query(
  `select current_setting('synchronous_standby_names') as names
   where current_setting('synchronous_standby_names') <> '' and pg_has_role('pg_read_all_stats', 'usage')
     and not exists (select 1 from pg_stat_replication where sync_state in ('sync', 'quorum'))`,
  ({ names }: { names: string }) => names,
)

const standbyAway = async ({ look }: Connection): Promise<string | null> =>
  (await look((tx) => tx.get(AWAY))) ?? null

const standbyAwayLook =
  (connection: Connection): Look =>
  async () => {
    const names = await standbyAway(connection)
    if (names === null) return []
    const next = guideTo('postgres#when-the-standby-is-away')
    return [finding({ kind: 'standby_away', subject: 'server', message: standbyWords(names), next })]
  }

/** Places where writes once waited for a standby. */
const UNREPLICATED = query(
  `select 1 from server_line where had_standby = 1 and current_setting('synchronous_standby_names') = ''`,
)

const standbyGoneLook =
  ({ look, server }: Connection): Look =>
  async () => {
    if (!(await look((tx) => tx.get(UNREPLICATED)))) return []
    const message =
      'no longer waits for a standby: what it has confirmed is on this disk only (synchronous_standby_names)'
    const next = ['psql', namedInCommand(server), '-c', 'table pg_stat_replication']
    return [finding({ kind: 'standby_away', severity: 'ticket', subject: 'server', message, next })]
  }

// The check on a server: damage known to it, dangling rows, and faults that only a server can have.

/** The schedules of a partner that was just changed may still be behind it. */
const NOT_BEHIND = 'and not exists (select 1 from schedules_behind b where b.partner_slug = r.partner_slug)'

const RULES = checkedRules(NOT_BEHIND)

// Faults of the database itself, as far as a server can tell: pages whose checksums failed, indexes that are
// incomplete, and rows with a dangling reference where the schema has no foreign key (sql/postgres/0001_start.sql).

type FaultRow = Pick<Fault, 'subject' | 'message'>

const INTEGRITY = query(
  `select 'database ' || datname as subject,
     checksum_failures || ' of its pages did not have the checksum they were written with' as message
   from pg_stat_database where datname = current_database() and checksum_failures > 0
   union all
   select 'index ' || c.relname,
     'is invalid: until \`reindex\` has rebuilt it, it may miss rows and let in duplicates'
   from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace s on s.oid = c.relnamespace
   where s.nspname = current_schema() and not (i.indisvalid and i.indisready and i.indislive)
   union all
   select 'constraint ' || c.conname, 'was never validated: rows may break it'
   from pg_constraint c join pg_namespace s on s.oid = c.connamespace
   where s.nspname = current_schema() and not c.convalidated`,
  (row: FaultRow): Fault => ({ kind: 'integrity', ...row }),
)

const REFERENCES = [
  { child: 'executions', key: 'execution_id', column: 'window_id', parent: 'windows' },
  { child: 'trades', key: 'execution_id', column: 'plan_id', parent: 'plans' },
  { child: 'trades', key: 'execution_id', column: 'user_id', parent: 'users' },
  { child: 'adjustments', key: 'adjustment_id', column: 'plan_id', parent: 'plans' },
  { child: 'adjustments', key: 'adjustment_id', column: 'user_id', parent: 'users' },
]

const DANGLING = query(
  REFERENCES.map(
    ({ child, key, column, parent }) =>
      `(select '${child} row ' || c.${key} as subject, 'refers to a row of ${parent} that does not exist' as message
        from ${child} c where not exists (select 1 from ${parent} p where p.${column} = c.${column})
        limit ${FINDINGS_PER_RULE_MAX})`,
  ).join(' union all '),
  (row: FaultRow): Fault => ({ kind: 'foreign_key', ...row }),
)

// Changes of the schema: it is compared with one that the migrations build beside it, in a transaction that is undone.
// So no list has to be maintained, and it does not matter how a version of the server writes a definition.

const EXPECTED = `${SCHEMA}_expected`

/** The parts of the schema that the session uses. `binding` parts change writes, so an added one counts too. */
const PARTS = `
  select 'table' as kind, relname::text as name,
    relkind::text || case when relrowsecurity then ' with policies' else '' end as definition, false as binding
  from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f')
  union all
  select 'column', c.relname || '.' || a.attname,
    format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull::text || ' ' || a.attidentity::text || a.attgenerated::text || ' '
      || coalesce(a.attcollation::regcollation::text, '') || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), ''), false
  from pg_class c join pg_attribute a on a.attrelid = c.oid
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
  union all
  select 'constraint', conname::text, conrelid::regclass::text || ' ' || replace(pg_get_constraintdef(oid, true), ' NOT VALID', ''), true
  from pg_constraint where connamespace = current_schema()::regnamespace and contype <> 'n'
  union all
  select 'index', c.relname::text, pg_get_indexdef(c.oid, 0, true), i.indisunique
  from pg_index i join pg_class c on c.oid = i.indexrelid
  where c.relnamespace = current_schema()::regnamespace
  union all
  select 'trigger', c.relname || '.' || t.tgname, pg_get_triggerdef(t.oid, true) || ' ' || t.tgenabled::text, true
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = current_schema()::regnamespace and not t.tgisinternal
  union all
  select 'rule', c.relname || '.' || r.rulename, pg_get_ruledef(r.oid, true), true
  from pg_rewrite r join pg_class c on c.oid = r.ev_class
  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
  union all
  select 'function', p.proname::text, p.prosrc, false
  from pg_proc p where p.pronamespace = current_schema()::regnamespace`

/** Empty if the user may not create a schema, or may not write at all. */
async function differencesOf({ pool, server }: Connection): Promise<SchemaDifferences> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const [isAble] = await firstColumn<boolean>(
      client,
      `select has_database_privilege(current_database(), 'create')
         and current_setting('transaction_read_only') = 'off'`,
    )
    if (!isAble) return { differs: [], additions: [] }
    const found = await partsOf(client)
    await client.query(`set local search_path to ${EXPECTED}`)
    await bringUp(client, EXPECTED, 0 as Instant)
    return compareSchemas(await partsOf(client), found)
  } catch (error) {
    throw explained(error, server)
  } finally {
    // All its settings and objects end with its session.
    client.release(true)
  }
}

const partsOf = async (client: Asked): Promise<Part[]> => (await client.query<Part>(PARTS)).rows
