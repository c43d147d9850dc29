// Checkpoints that a thread does while a service is written to.

import assert from 'node:assert/strict'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import SQLite from 'better-sqlite3'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { temporaryFolder } from '../support/database.ts'
import { startServe } from '../support/process.ts'
import { USER, withKey } from '../support/service.ts'
import { link, populate } from './world.ts'

const PAGE_BYTES = 4_096 + 24
/** What the thread is asked to move, and the most that a log may come to. */
const [LONG, MOST] = [4_000 * PAGE_BYTES, 16_000 * PAGE_BYTES]
const size = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0
const beside = (file: string): boolean[] =>
  ['-wal', '-shm', '-owner'].map((suffix) => existsSync(file + suffix))

test('a log that grows is moved into the file and begins anew, while writes go on', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  const store = await openStore(file, { clock: machine.clock, create: true, checkpointsAside: true })
  t.after(() => store.close())
  const { acme } = await populate(store)
  let written = 0
  // Each of these commits takes several pages of the log.
  while (written * 5 * PAGE_BYTES < 2 * MOST) {
    await link(store, acme, `user-${written}-${'x'.repeat(200)}`)
    written += 1
    assert.ok(size(`${file}-wal`) < MOST + LONG, `${size(`${file}-wal`)} bytes after ${written} writes`)
  }
  assert.ok(size(`${file}-wal`) >= LONG, 'it was long')
  assert.ok(size(file) > written * 200, 'and is in the file')
  await store.close()
  assert.deepEqual(beside(file), [false, false, false])
  const again = await openStore(file, { clock: machine.clock, create: false })
  t.after(() => again.close())
  assert.equal((await again.listUsers(acme, { after: null, limit: 1_000_000 })).length, written)
  assert.deepEqual(await again.findFaults(), [])
})

test('so it is under serve, whose end leaves no log', async (t) => {
  const { cwd, key } = await withKey(t)
  const file = join(cwd, 'tranche.db')
  const { url, child, ended } = await startServe(t, [], { cwd })
  const headers = { authorization: `Bearer ${key}` }
  lengthen(file, 3_000)
  const left = LONG - size(`${file}-wal`)
  assert.ok(left > 0, 'the rest of it is for the service to write')
  // One call after the other: each is a commit of its own.
  for (let n = 0; size(`${file}-wal`) < LONG; n++) {
    const body = JSON.stringify({ ...USER, partner_user_id: `user-${n}-${'x'.repeat(200)}` })
    const answer = await fetch(`${url}/partner/v1/users`, { method: 'POST', headers, body })
    const text = await answer.text()
    assert.equal(answer.status, 200, text)
    assert.ok(n * 2 * PAGE_BYTES < left, `${size(`${file}-wal`)} bytes after ${n} calls`)
  }
  child.kill('SIGTERM')
  assert.equal(await ended, 0)
  assert.deepEqual(beside(file), [false, false, false])
})

/** Writes so many pages to the log, as another process may, and moves none of them into the file. */
function lengthen(file: string, pages: number): void {
  const db = new SQLite(file)
  db.pragma('wal_autocheckpoint = 0')
  db.exec(`begin; create table filler (x); insert into filler values (zeroblob(${pages * 4_096})); commit`)
  db.close()
}
