// Helpers for the tests of backup, restore and upgrade: databases worth copying, and checks of their copies.

import assert from 'node:assert/strict'
import { copyFileSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import SQLite from 'better-sqlite3'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { folderOfProcess, temporaryFolder } from '../support/database.ts'
import { runHere } from '../support/service.ts'
import { firstTranche, openWorld, T0 } from './world.ts'

let made: Promise<string> | undefined

/** A database with an execution in it, closed, in a folder of its own: a copy of one that each process makes once. */
export async function filled(t: Pick<TestContext, 'after'>): Promise<string> {
  const file = join(temporaryFolder(t), 'tranche.db')
  made ??= makeFilled()
  copyFileSync(await made, file)
  return file
}

async function makeFilled(): Promise<string> {
  const file = join(folderOfProcess(), 'filled.db')
  const ends: (() => unknown)[] = []
  const after = (end: unknown) => void ends.push(end as () => unknown)
  const world = await openWorld({ after }, (_, clock) => openStore(file, { clock, create: true }))
  await firstTranche(world)
  for (const end of ends) await end()
  return file
}

/** Runs a command line on a database, in this process. */
export const trancheHere = (file: string, ...argv: string[]) => runHere(['--db', file, ...argv], { machine })

/** The files in the folder of a file, without those of SQLite beside an open one. */
export const beside = (file: string): string[] =>
  readdirSync(dirname(file))
    .filter((name) => !/-(wal|shm|tick|owner)$/.test(name))
    .sort()

export const partials = (file: string): string[] =>
  readdirSync(dirname(file)).filter((name) => name.startsWith(`${basename(file)}.partial-`))

export const mode = (file: string): number => statSync(file).mode & 0o777

/** Opens a copy as the service would, checks all of it, and returns the names of its users. */
export async function soundUsers(t: TestContext, copy: string): Promise<string[]> {
  const store = await openStore(copy, { clock: () => T0, create: false })
  t.after(() => store.close())
  assert.deepEqual(await store.findFaults(), [])
  const tenant = await store.findTenant('acme', 'test')
  assert.ok(tenant)
  const users = await store.listUsers(tenant, { after: null, limit: 100_000 })
  await store.close()
  return users.map(({ partnerUserId }) => partnerUserId)
}

/** Runs SQL on the file, past the program. */
export function tamper(file: string, sql: string): void {
  const db = new SQLite(file)
  try {
    db.exec(sql)
  } finally {
    db.close()
  }
}

/** The first value of a query, read past the program. */
export function valueIn(file: string, sql: string): unknown {
  const db = new SQLite(file, { readonly: true })
  try {
    return db.prepare(sql).pluck().get()
  } finally {
    db.close()
  }
}

/** The number of rows of a table, or of those of a condition. */
export const count = (file: string, rows: string): number =>
  valueIn(file, `select count(*) from ${rows}`) as number
