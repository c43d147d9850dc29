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

// An empty database at the schema of today, for the tests that need one: each process makes one and copies it.

let made: Promise<string> | undefined

/** Opens an empty database at `file`, where there is none. */
export async function openFresh(file: string, clock: () => Instant): Promise<Store> {
  await layFresh(file)
  return openStore(file, { clock, create: false })
}

/** Puts an empty database where there is none: its migrations take longer than most of what a test does with it. */
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

/** Of a test process that keeps its databases on a server: that server. */
const server =
  process.env.TRANCHE_TEST_STORE === 'postgres' ? await import('./postgres-server.ts') : undefined
await server?.ourServer()

export const isOnServer = server !== undefined

/** What --db is to name for a database of this folder, of which nothing is there yet; the same for the same folder. */
export const addressIn = (folder: string): string =>
  server ? server.emptyDatabase(folder) : join(folder, 'tranche.db')

/** Opens a new database, at the schema of today. */
export const openNew = async (folder: string, clock: () => Instant): Promise<Store> =>
  server ? openAgain(await server.ownDatabase(folder), clock) : openFresh(addressIn(folder), clock)

/** Opens one that is there. */
export async function openAgain(address: string, clock: () => Instant): Promise<Store> {
  const database = await databaseOf(address, { clock })
  return database.open({ create: false })
}

/**
 * The setting by which a process finds the database of the folder it runs in; on a disk it finds the file by itself.
 */
export const settingIn = (folder: string): { TRANCHE_DB?: string } =>
  server && existsSync(folder) ? { TRANCHE_DB: addressIn(folder) } : {}

// Folders for the files of one test, and of all tests of a process.

/**
 * A folder that is gone when the test ends. Its hooks run in the order in which they were made, and a process that
 * still writes would be in the way: the last of them removes the folder, after whatever was started in it is ended.
 */
export function temporaryFolder(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-test-'))
  t.after(() => t.after(() => rmSync(folder, { recursive: true, force: true })))
  return folder
}

/** A folder that is gone when the process ends: for what its tests make once and copy. */
export function folderOfProcess(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-test-'))
  process.once('exit', () => rmSync(folder, { recursive: true }))
  return folder
}

// The rows of a database, wherever it is: for tests that see or make what no command does.

type Row = Record<string, unknown>
/** One statement in SQL that both stores speak, with a ? for each value. Integers are numbers. */
export type Rows = (sql: string, ...values: unknown[]) => Promise<Row[]>

/** Asks as somebody with a shell would, until the test ends. `address` is what --db names. */
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

/** Has the database fail, with a message, whatever touches a table in one way; what it answers ends that. */
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
