// The list of tables that a copy goes by leaves out no table, no column and no part of a key of either store.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ColumnKind, TABLES } from '../../src/store/copying.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { openFresh } from '../support/fresh-database.ts'
import { ourServer, ownDatabase } from '../support/postgres-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { hasTool } from '../support/tools.ts'

type Found = { name: string; column: string; kind: string; in_key: bigint | number }

/**
 * What is made anew in a copy, or goes another way: the seal, when a file was migrated,
 * and what a server has lost. What a change of a partner
 * has not reached yet is reached before there is a copy.
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
]

const KINDS: Record<string, ColumnKind> = {
  INTEGER: 'integer',
  bigint: 'integer',
  TEXT: 'text',
  text: 'text',
  REAL: 'real',
  'double precision': 'real',
}

function assertListed(found: readonly Found[]): void {
  const rows = (of: readonly { name: string; line: string }[]) =>
    of.map(({ name, line }) => `${name} ${line}`).sort()
  const listed = TABLES.flatMap(({ name, key, columns }) =>
    columns.map((column) => ({
      name,
      line: `${column.name} ${column.kind} ${key.indexOf(column.name) + 1}`,
    })),
  )
  const there = found
    .filter(({ name }) => !OTHERS.includes(name))
    .map(({ name, column, kind, in_key }) => ({ name, line: `${column} ${KINDS[kind]} ${in_key}` }))
  assert.deepEqual(rows(listed), rows(there))
}

test('it has all of a file', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  const store = await openFresh(file, () => 0 as never)
  await store.close()
  const db = openFile(file)
  const found = db.prepare(
    `select t.name, c.name as column, c.type as kind, c.pk as in_key
     from sqlite_schema t join pragma_table_info(t.name) c where t.type = 'table'`,
  )
  assertListed(found.all() as Found[])
  db.close()
})

test('it has all of a database on a server', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const server = await ourServer()
  const url = await ownDatabase(temporaryFolder(t))
  const found = await server.ask<Found>(
    `select c.relname::text as name, a.attname::text as column, format_type(a.atttypid, null) as kind,
       coalesce(array_position(k.conkey, a.attnum), 0) as in_key
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
     where c.relnamespace = 'tranche'::regnamespace and c.relkind = 'r'`,
    new URL(url).pathname.slice(1),
  )
  assertListed(found)
})
