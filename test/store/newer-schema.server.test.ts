// A process that has a database open while a later version of the program migrates it: it stops writing, and says why.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { Problem } from '../../src/core/problem.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { temporaryFolder } from '../support/database.ts'
import { emptyDatabase, ourServer } from '../support/postgres-server.ts'
import { damage } from './damage.ts'
import { open as onServer } from './postgres.ts'
import { open as onFile } from './sqlite.ts'
import {
  AUDIT,
  allExecutions,
  type Backend,
  filled,
  firstTranche,
  openWorld,
  poll,
  report,
  setUser,
  tick,
} from './world.ts'

const LATER = "insert into migrations values ('9999_later.sql', 'x', 0)"

const KINDS: Record<string, Backend['open']> = { 'a file': onFile, 'a server': onServer }

const isRefused = (error: unknown): boolean =>
  error instanceof Problem && error.code === 'schema_newer' && error.message.includes('9999_later.sql')

for (const [kind, open] of Object.entries(KINDS))
  test(`on ${kind} that a later version has migrated, an open store writes nothing more`, async (t) => {
    const world = await openWorld(t, open)
    const { store, acme, place } = world
    const execution = await firstTranche(world, { delivered: false })
    const before = await allExecutions(store)
    await damage(place, LATER)
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

    // It continues once the later version is gone again.
    await damage(place, "delete from migrations where name = '9999_later.sql'")
    assert.deepEqual(await allExecutions(store), before)
    assert.equal((await poll(store, acme)).length, 1)
  })

for (const [kind, open] of Object.entries(KINDS))
  test(`on ${kind} that a later version has migrated, an open store that only reads refuses as well`, async (t) => {
    const world = await openWorld(t, open)
    await damage(world.place, LATER)
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
  const world = await openWorld(t, onServer)
  await damage(world.place, `alter table ticks rename column at to begun_at; ${LATER}`)
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
