// The database of a test of the whole service: a file, or with TRANCHE_TEST_STORE=postgres (npm test -- --store
// postgres) one on a server of the test process.

import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import SQLite from 'better-sqlite3'
import pg from 'pg'
import { databaseOf } from '../../src/cli/context.ts'
import type { Instant } from '../../src/core/time.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'

// An empty database at the current schema, for the tests that need one: each process makes one and copies it.

let made: Promise<string> | undefined

/** Opens an empty database at `file`, where there is none. */
export async function openFresh(file: string, clock: () => Instant): Promise<Store> {
  await layFresh(file)
  return openStore(file, { clock, create: false })
}

/** Copies an empty database to a free place: its migrations take longer than most of a test's work on it. */
export async function layFresh(file: string): Promise<void> {
  made ??= makeEmpty()
  copyFileSync(await made, file)
}

async function makeEmpty(): Promise<string> {
  const file = join(folderOfProcess(), 'empty.db')
  const store = await openStore(file, { clock: () => 0 as Instant, create: true })
  store.close()
  return file
}

/** The server of a test process whose databases are on one. */
const server =
  process.env.TRANCHE_TEST_STORE === 'postgres' ? await import('./postgres-server.ts') : undefined
await server?.ourServer()

export const isOnServer = server !== undefined

/** The value of --db for a database of this folder that does not exist yet; the same for the same folder. */
export const addressIn = (folder: string): string =>
  server ? server.emptyDatabase(folder) : join(folder, 'tranche.db')

/** Opens a new database, at the current schema. */
export const openNew = async (folder: string, clock: () => Instant): Promise<Store> =>
  server ? openAgain(await server.ownDatabase(folder), clock) : openFresh(addressIn(folder), clock)

/** Opens an existing database. */
export async function openAgain(address: string, clock: () => Instant): Promise<Store> {
  const database = await databaseOf(address, { clock })
  return database.open({ create: false })
}

/** The setting by which a process finds the database of its working folder; on a disk it finds the file by itself. */
export const settingIn = (folder: string): { TRANCHE_DB?: string } =>
  server && existsSync(folder) ? { TRANCHE_DB: addressIn(folder) } : {}

// Folders for the files of one test, and of all tests of a process.

/**
 * A folder that is removed when the test ends. Hooks run in the order in which they were made, and a process that still
 * writes would be in the way: the last hook removes the folder, after every process started in it has ended.
 */
export function temporaryFolder(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-test-'))
  t.after(() => t.after(() => rmSync(folder, { recursive: true, force: true })))
  return folder
}

/** A folder that is removed when the process ends: for files that its tests make once and copy. */
export function folderOfProcess(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-test-'))
  process.once('exit', () => rmSync(folder, { recursive: true }))
  return folder
}

// The rows of a database, wherever it is: for tests that see or make rows as no command does.

type Row = Record<string, unknown>
/** A single statement in SQL that both stores accept, with a ? for each value. Integers are numbers. */
export type Rows = (sql: string, ...values: unknown[]) => Promise<Row[]>

/** Runs statements as somebody with a shell would, until the test ends. `address` is the value of --db. */
export const rowsOf = (t: Pick<TestContext, 'after'>, address: string): Promise<Rows> =>
  isOnServer ? onServer(t, address) : inFile(t, address)

async function inFile(t: Pick<TestContext, 'after'>, file: string): Promise<Rows> {
  const db = new SQLite(file)
  t.after(() => db.close())
  return async (sql, ...values) => {
    const statement = db.prepare(sql)
    if (statement.reader) return statement.all(...values) as Row[]
    statement.run(...values)
    return []
  }
}

async function onServer(t: Pick<TestContext, 'after'>, url: string): Promise<Rows> {
  const types = {
    getTypeParser: (oid: number) => (oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid)),
  }
  const client = new pg.Client({ connectionString: url, types: types as never })
  client.on('error', () => {})
  await client.connect()
  t.after(() => client.end())
  await client.query('set search_path = tranche')
  return async (sql, ...values) => {
    let count = 0
    return (
      await client.query(
        sql.replaceAll('?', () => `$${++count}`),
        values,
      )
    ).rows
  }
}

/** Has the database refuse one kind of write to a table, with a message; the returned function ends that. */
export async function refuse(
  rows: Rows,
  { verb, table, message }: { verb: 'insert' | 'update' | 'delete'; table: string; message: string },
): Promise<() => Promise<unknown>> {
  const on = `create trigger refuse before ${verb} on ${table}`
  if (!isOnServer) {
    await rows(`${on} begin select raise(abort, '${message}'); end`)
    return () => rows('drop trigger refuse')
  }
  await rows(
    `create function refuse_for_test() returns trigger language plpgsql as $$ begin raise exception '${message}'; end $$`,
  )
  await rows(`${on} for each row execute function refuse_for_test()`)
  return () => rows(`drop trigger refuse on ${table}`)
}
