// What is wrong with the database itself, as far as a server can tell: pages whose checksums failed, indexes that are
// incomplete, and rows with a dangling reference where the schema has no foreign key (sql/postgres/0001_start.sql).

import type { Fault } from '../../check.ts'
import { FINDINGS_PER_RULE_MAX } from '../../common/health/faults.ts'
import { query } from '../server/statement.ts'

type IntegrityRow = { what: 'checksums' | 'index' | 'constraint'; name: string; n: bigint }

export const INTEGRITY = query<IntegrityRow>(
  `select 'checksums' as what, datname::text as name, checksum_failures as n
   from pg_stat_database where datname = current_database() and checksum_failures > 0
   union all
   select 'index', c.relname::text, 0
   from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace s on s.oid = c.relnamespace
   where s.nspname = current_schema() and not (i.indisvalid and i.indisready and i.indislive)
   union all
   select 'constraint', c.conname::text, 0
   from pg_constraint c join pg_namespace s on s.oid = c.connamespace
   where s.nspname = current_schema() and not c.convalidated`,
)

const MESSAGES: Record<IntegrityRow['what'], (row: IntegrityRow) => string> = {
  checksums: ({ n }) => `${n} of its pages did not have the checksum they were written with`,
  index: () =>
    'is incomplete: neither its uniqueness nor what it finds can be relied on until `reindex` has rebuilt it',
  constraint: () => 'was never validated: rows may break it',
}
export const integrityFault = (row: IntegrityRow): Fault => ({
  kind: 'integrity',
  subject: `${row.what === 'checksums' ? 'database' : row.what} ${row.name}`,
  message: MESSAGES[row.what](row),
})

type DanglingRow = { child: string; key: string; parent: string }

const REFERENCES = [
  { child: 'executions', key: 'execution_id', column: 'window_id', parent: 'windows' },
  { child: 'trades', key: 'execution_id', column: 'plan_id', parent: 'plans' },
  { child: 'trades', key: 'execution_id', column: 'user_id', parent: 'users' },
  { child: 'adjustments', key: 'adjustment_id', column: 'plan_id', parent: 'plans' },
  { child: 'adjustments', key: 'adjustment_id', column: 'user_id', parent: 'users' },
]

export const DANGLING = query<DanglingRow>(
  REFERENCES.map(
    ({ child, key, column, parent }) =>
      `(select '${child}' as child, c.${key}::text as key, '${parent}' as parent from ${child} c
        where not exists (select 1 from ${parent} p where p.${column} = c.${column})
        limit ${FINDINGS_PER_RULE_MAX})`,
  ).join(' union all '),
)

export const danglingFault = ({ child, key, parent }: DanglingRow): Fault => ({
  kind: 'foreign_key',
  subject: `${child} row ${key}`,
  message: `refers to a row of ${parent} that does not exist`,
})
