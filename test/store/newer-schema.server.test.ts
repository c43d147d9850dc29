// A process that has a database open while a later version of the program migrates it: it stops writing, and says why.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import pg from 'pg'
import { Problem } from '../../src/core/problem.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { temporaryFolder } from '../support/database.ts'
import { emptyDatabase, ourServer } from '../support/postgres-server.ts'
import { open as onServer } from './postgres.ts'
import { open as onFile } from './sqlite.ts'
import {
  AUDIT,
  type Backend,
  filled,
  firstTranche,
  openWorld,
  poll,
  report,
  setUser,
  tick,
  type World,
} from './world.ts'

const LATER = "insert into migrations values ('9999_later.sql', 'x', 0)"

/** Runs SQL past the program. */
const PAST: Record<'a file' | 'a server', (world: World, sql: string) => Promise<unknown[]>> = {
  'a file': async ({ place }, sql) => {
    const db = new SQLite(join(place, 'tranche.db'))
    const statement = db.prepare(sql)
    const rows = statement.reader ? statement.all() : [statement.run()]
    db.close()
    return rows
  },
  'a server': async ({ place }, sql) => {
    const client = new pg.Client({ connectionString: readFileSync(join(place, 'address'), 'utf8') })
    await client.connect()
    await client.query('set search_path = tranche')
    const { rows } = await client.query(sql)
    await client.end()
    return rows
  },
}
const BACKENDS: Record<keyof typeof PAST, Backend['open']> = { 'a file': onFile, 'a server': onServer }

async function worldOn(t: TestContext, kind: keyof typeof PAST): Promise<World> {
  return openWorld(t, async (_, clock, place) => {
    const store = await BACKENDS[kind](place, clock)
    t.after(() => store.close())
    return store
  })
}

const isRefused = (error: unknown): boolean =>
  error instanceof Problem && error.code === 'schema_newer' && error.message.includes('9999_later.sql')

for (const kind of ['a file', 'a server'] as const)
  test(`on ${kind} that a later version has migrated, an open store writes nothing more`, async (t) => {
    const world = await worldOn(t, kind)
    const { store, acme } = world
    const execution = await firstTranche(world, { delivered: false })
    const past = (sql: string) => PAST[kind](world, sql)
    await past(LATER)
    const before = await past('select * from executions')
    await assert.rejects(poll(store, acme), isRefused)
    // After one refused call, the next one is refused too.
    await assert.rejects(store.listPartners(), isRefused)
    await assert.rejects(store.readScheduler(), isRefused)
    await assert.rejects(store.probeWrite(), isRefused)
    await assert.rejects(report(store, acme, execution.executionId, filled(execution.amount)), isRefused)
    await assert.rejects(setUser(store, acme, 'u1', 'disabled'), isRefused)
    await assert.rejects(store.resetSandbox(acme, AUDIT), isRefused)
    await assert.rejects(tick(world, '60000'), isRefused)
    // Many at once share a commit: each of them is refused.
    const many = Array.from({ length: 20 }, (_, n) => setUser(store, acme, `u${n}`, 'disabled'))
    for (const { status, reason } of (await Promise.allSettled(many)) as PromiseRejectedResult[])
      assert.ok(status === 'rejected' && isRefused(reason))
    assert.deepEqual(await past('select * from executions'), before)

    // It continues once the later version is gone again.
    await past("delete from migrations where name = '9999_later.sql'")
    assert.equal((await poll(store, acme)).length, 1)
  })

for (const kind of ['a file', 'a server'] as const)
  test(`on ${kind} that a later version has migrated, an open store that only reads refuses as well`, async (t) => {
    const world = await worldOn(t, kind)
    await PAST[kind](world, LATER)
    for (const end = performance.now() + 30_000; ; await pause(10)) {
      const refused = await world.store.listPartners().then(
        () => null,
        (error) => error,
      )
      if (refused) return assert.ok(isRefused(refused), String(refused))
      assert.ok(performance.now() < end, 'it goes on to read')
    }
  })

test('a table that a later version has changed is not why a write on a server fails', async (t) => {
  const world = await worldOn(t, 'a server')
  await PAST['a server'](world, 'alter table ticks rename column at to begun_at')
  await PAST['a server'](world, LATER)
  await assert.rejects(world.store.probeWrite(), isRefused)
})

test('a migration on a server waits for the writes under way', async (t) => {
  await ourServer()
  const url = emptyDatabase(join(temporaryFolder(t), 'migrated'))
  const writer = new pg.Client({ connectionString: url })
  await writer.connect()
  await writer.query(`select pg_advisory_lock_shared(${LOCK.all}, 0)`)
  let isOpen = false
  const opening = openStore(url, { clock: null, create: true }).then((store) => {
    isOpen = true
    return store
  })
  const waits = `select count(*)::int as n from pg_locks where locktype = 'advisory' and classid = ${LOCK.all} and not granted`
  while ((await writer.query(waits)).rows[0].n === 0) {
    assert.equal(isOpen, false)
    await pause(10)
  }
  await writer.end()
  await (await opening).close()
})
