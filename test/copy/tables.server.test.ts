// The descriptions of the tables match both schemas: each table, column, kind and key, which columns may be null, and
// which an insert may leave to the database.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { type ColumnKind, TABLES } from '../../src/store/tables.ts'
import { openFresh, temporaryFolder } from '../support/database.ts'
import { ourServer, ownDatabase } from '../support/postgres-server.ts'

type Found = {
  name: string
  column: string
  kind: string
  in_key: bigint | number
  nullable: bigint | number
  /** Whether the database has a value for a row that gives none. */
  filled: bigint | number
}

/**
 * Tables that are made anew in a copy or filled another way: when a file was migrated, and which server took the last
 * write. Pending changes of a partner are completed before there is a copy. Tables that were once in use and are empty
 * now have nothing to copy.
 */
const OTHERS = [
  'file_migrations',
  'lost_writes',
  'migrations',
  'open_counts',
  'outcomes',
  'pass_pages',
  'schedules_behind',
  'sealed',
  'server_line',
  'standstill',
]

const KINDS: Record<string, ColumnKind> = {
  INTEGER: 'integer',
  bigint: 'integer',
  TEXT: 'text',
  text: 'text',
  REAL: 'real',
  'double precision': 'real',
}

/** The digests of mutable rows, which nobody writes or reads any more: a schema only grows. */
const isOldDigest = (name: string, column: string): boolean =>
  column === 'digest' &&
  !TABLES.some((table) => table.name === name && table.columns.some((c) => c.name === column))

function assertDescribed(found: readonly Found[]): void {
  const described = TABLES.flatMap(({ name, key, columns }) =>
    columns.map(
      ({ name: column, kind, isNullable }) =>
        `${name}.${column} ${kind} ${key.indexOf(column) + 1}${isNullable ? ' null' : ''}`,
    ),
  )
  const there = found.filter(({ name, column }) => !OTHERS.includes(name) && !isOldDigest(name, column))
  const columns = there.map(
    ({ name, column, kind, in_key, nullable }) =>
      `${name}.${column} ${KINDS[kind]} ${in_key}${nullable ? ' null' : ''}`,
  )
  assert.deepEqual(described.sort(), columns.sort())
  const filled = new Set(there.flatMap(({ name, column, filled }) => (filled ? `${name}.${column}` : [])))
  const left = TABLES.flatMap(({ name, columns }) =>
    columns.flatMap(({ name: column, isMade }) => (isMade ? `${name}.${column}` : [])),
  )
  const unfilled = left.filter((column) => !filled.has(column))
  assert.deepEqual(unfilled, [], 'what an insert leaves out')
}

test('they are what a file has', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  await (await openFresh(file, () => 0 as never)).close()
  const db = openFile(file)
  const found = db.prepare(
    `select t.name, c.name as column, c.type as kind, c.pk as in_key, c.pk = 0 and "notnull" = 0 as nullable,
       c.dflt_value is not null or "notnull" = 0 as filled
     from sqlite_schema t join pragma_table_info(t.name) c where t.type = 'table'`,
  )
  assertDescribed(found.all() as Found[])
  db.close()
})

test('they are what a database on a server has', async (t) => {
  const server = await ourServer()
  const url = await ownDatabase(temporaryFolder(t))
  const found = await server.ask<Found>(
    `select c.relname::text as name, a.attname::text as column, format_type(a.atttypid, null) as kind,
       coalesce(array_position(k.conkey, a.attnum), 0) as in_key, (not a.attnotnull)::int as nullable,
       (a.atthasdef or a.attidentity <> '' or not a.attnotnull)::int as filled
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
     where c.relnamespace = 'tranche'::regnamespace and c.relkind = 'r'`,
    new URL(url).pathname.slice(1),
  )
  assertDescribed(found)
})
