// What the tests of backup and restore share: databases worth copying, and processes that have them open.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import SQLite from 'better-sqlite3'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { runHere } from '../support/command.ts'
import { finish, type Program, type Started, start } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import { firstTranche, openWorld, T0 } from './world.ts'

const CHILD: Program = [process.execPath, join(import.meta.dirname, 'child.ts')]

/** A database with an execution in it, closed, in a folder of its own. */
export async function filled(t: TestContext): Promise<string> {
  const file = join(temporaryFolder(t), 'tranche.db')
  const world = await openWorld(t, async (_, now) => openStore(file, { clock: now, create: true }))
  await firstTranche(world)
  world.store.close()
  return file
}

/** Makes a database so large that copying it takes its time. */
export function fatten(file: string): void {
  const db = new SQLite(file)
  db.exec(`with recursive n(i) as (select 1 union all select i + 1 from n where i < 8000)
    insert into prices select i, 100000000, hex(randomblob(2500)) from n`)
  db.close()
}

export const tranche = (t: TestContext, file: string, ...argv: string[]) =>
  finish(t, ['--db', file, ...argv], { cwd: dirname(file) })

/** The same in this process, for all that does not depend on there being two. */
export const trancheHere = (file: string, ...argv: string[]) => runHere(['--db', file, ...argv], machine)

/** Starts a process that does what child.ts knows by that verb. */
export const act = (t: TestContext, verb: string, file: string, argument = ''): Started =>
  start(t, [verb, file, argument], { cwd: dirname(file), program: CHILD })

/** Resolves once the process has said so. */
export async function says(started: Started, what: string): Promise<void> {
  while (!started.out().includes(what)) {
    const outcome = await Promise.race([once(started.child.stdout, 'data'), started.ended])
    assert.ok(Array.isArray(outcome) || started.out().includes(what), started.err())
  }
}

/** What lies in the folder of a file, without what SQLite keeps beside an open one. */
export const beside = (file: string): string[] =>
  readdirSync(dirname(file))
    .filter((name) => !/-(wal|shm|tick)$/.test(name))
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
  store.close()
  return users.map(({ partnerUserId }) => partnerUserId)
}

/** Runs SQL on the file behind the program's back. */
export function tamper(file: string, sql: string): void {
  const db = new SQLite(file)
  db.exec(sql)
  db.close()
}
