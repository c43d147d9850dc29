// The write-ahead log: when it is checkpointed, and which database it belongs to.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { temporaryFolder } from '../support/database.ts'
import { finish, type Started, start, startServe } from '../support/process.ts'
import { callerOf, USER, withKey } from '../support/service.ts'
import { trancheHere } from './copies.ts'
import { act } from './second-process.ts'
import { link, populate } from './world.ts'

const digest = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

type Served = Awaited<ReturnType<typeof withBackup>>

/** A database with a key, and a backup of it. Its commands run in this process: to a `serve` that is another one. */
async function withBackup(t: TestContext) {
  const { cwd, key } = await withKey(t)
  const file = join(cwd, 'tranche.db')
  const backup = join(cwd, 'backup.db')
  const run = (...argv: string[]) => trancheHere(file, ...argv)
  const users = async (name: string): Promise<string[]> => {
    const { code, out, err } = await trancheHere(name, 'user', 'list', 'acme', '--env', 'test', '--json')
    assert.equal(code, 0, err)
    return JSON.parse(out).map((user: { partner_user_id: string }) => user.partner_user_id)
  }
  assert.equal((await run('backup', backup)).code, 0)
  return { cwd, key, file, backup, run, users }
}

/** A served database whose last writes are only in its log. */
async function withLog(t: TestContext): Promise<Served & { serve: Started }> {
  const made = await withBackup(t)
  const serve = await startServe(t, [], { cwd: made.cwd })
  await callerOf(serve.url, made.key)('POST', '/users', USER)
  return { ...made, serve }
}

/** A database that a process has open, its last writes only in the log; `kill` ends that process. */
async function withHolder(t: TestContext): Promise<Served & { kill: () => Promise<void> }> {
  const made = await withBackup(t)
  const { prints, child, ended } = act(t, 'idle', made.file)
  await prints('open')
  const store = await openStore(made.file, { clock: machine.clock, create: false })
  const tenant = await store.findTenant('acme', 'test')
  assert.ok(tenant)
  await link(store, tenant, USER.partner_user_id)
  await store.close()
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  return { ...made, kill }
}

const BOTH = ['', '-wal']

test('no command opens it, serve least of all, and both files keep their bytes', async (t) => {
  const { cwd, file, backup, run, serve } = await withLog(t)
  renameSync(backup, file)
  const state = () => BOTH.map((suffix) => digest(file + suffix))
  const before = state()
  const refused = async (): Promise<void> => {
    const ends = [['status'], ['check'], ['backup', join(cwd, 'x.db')], ['migrate', '--status']].map((argv) =>
      run(...argv),
    )
    for (const { code, out, err } of await Promise.all([finish(t, ['tick'], { cwd }), ...ends])) {
      assert.deepEqual([code, out], [1, ''])
      assert.match(
        err,
        /was replaced, emptied or removed, and the log beside it .* belongs to the previous file/,
      )
    }
    assert.deepEqual(state(), before)
  }
  await refused()
  serve.child.kill('SIGKILL')
  await serve.ended
  await refused()
  rmSync(file)
  const { code, err } = await finish(t, ['serve', '--port', '0'], { cwd })
  assert.equal(code, 1)
  assert.match(err, /was replaced, emptied or removed/)
  assert.deepEqual(
    [existsSync(file), digest(`${file}-wal`)],
    [false, before[1]],
    'an empty one would have removed the log',
  )
})

test('restore puts a copy in its place and keeps what was there, unmixed', async (t) => {
  const { cwd, file, backup, run, users, kill } = await withHolder(t)
  const rescued = BOTH.map((suffix) => {
    copyFileSync(file + suffix, join(cwd, `rescued.db${suffix}`))
    return digest(file + suffix)
  })
  copyFileSync(backup, `${file}.new`)
  renameSync(`${file}.new`, file)
  await kill()
  const done = await run('restore', join(cwd, 'rescued.db'))
  assert.equal(done.code, 0, done.err)
  const source = readdirSync(cwd).filter((name) => name.startsWith('rescued'))
  assert.deepEqual(
    [source.sort(), BOTH.map((suffix) => digest(join(cwd, `rescued.db${suffix}`)))],
    [['rescued.db', 'rescued.db-wal'], rescued],
  )
  const kept = readdirSync(cwd)
    .filter((name) => /\.replaced-.*Z(\.before-wal)?$/.test(name))
    .sort()
    .map((name) => join(cwd, name))
  assert.deepEqual(kept.map(digest), [digest(backup), rescued[1]])
  // The replaced file may be opened: the name of its old log is not one that SQLite takes for its own.
  const [database = '', log = ''] = kept
  assert.equal((await trancheHere(database, 'check')).code, 0)
  assert.equal(digest(log), rescued[1])
  assert.deepEqual(await users(file), [USER.partner_user_id])
  assert.equal((await run('check')).code, 0)
})

test('a log that an erasure emptied, beside an older index, is sound: a power cut leaves the two so', async (t) => {
  const { cwd, file, run } = await withLog(t)
  copyFileSync(`${file}-shm`, join(cwd, 'older-shm'))
  const erased = await run('--json', 'user', 'erase', 'acme', USER.partner_user_id, '--env', 'test', '--yes')
  assert.equal(JSON.parse(erased.out).gone_from_file, true, erased.err)
  const image = join(cwd, 'image.db')
  for (const suffix of BOTH) copyFileSync(file + suffix, image + suffix)
  copyFileSync(join(cwd, 'older-shm'), `${image}-shm`)
  const { code, err } = await trancheHere(image, 'check')
  assert.deepEqual([code, err], [0, ''])
})

test('a log that belongs to its file is read, after a kill, under another name and from a copy of both', async (t) => {
  const { cwd, file, users, kill } = await withHolder(t)
  await kill()
  const [copied, moved] = [join(cwd, 'copied.db'), join(cwd, 'moved.db')]
  for (const suffix of BOTH) copyFileSync(file + suffix, copied + suffix)
  assert.equal((await users(copied)).length, 1)
  for (const suffix of BOTH) renameSync(file + suffix, moved + suffix)
  assert.equal((await users(moved)).length, 1)
})

test('a copy of both put back over them is read once the note is removed, as the message says', async (t) => {
  const { cwd, file, run, kill } = await withHolder(t)
  for (const suffix of BOTH) copyFileSync(file + suffix, join(cwd, `copied.db${suffix}`))
  await kill()
  rmSync(file)
  // Over an existing log, cp does not replace the file: it looks like the old one.
  for (const suffix of BOTH) copyFileSync(join(cwd, `copied.db${suffix}`), file + suffix)
  const { code, err } = await run('status')
  assert.equal(code, 1)
  const note = /remove (\S+-owner)\./.exec(err)?.[1] ?? ''
  rmSync(note)
  assert.equal((await run('check')).code, 0)
})

test('a link whose file is gone leads to the log of that file, and a pair that does not fit is not a source', async (t) => {
  const { cwd, file, backup, kill } = await withHolder(t)
  await kill()
  mkdirSync(join(cwd, 'links'))
  const alias = join(cwd, 'links', 'link.db')
  symlinkSync('../tranche.db', alias)
  const log = digest(`${file}-wal`)
  renameSync(file, join(cwd, 'elsewhere.db'))
  for (const argv of [['migrate'], ['partner', 'create', 'bolt', '--name', 'B']]) {
    const { code, err } = await trancheHere(alias, ...argv)
    assert.equal(code, 1, argv.join(' '))
    assert.match(err, /was replaced, emptied or removed/)
  }
  copyFileSync(backup, `${file}.new`)
  renameSync(`${file}.new`, file)
  const { code, err } = await trancheHere(join(cwd, 'other.db'), 'restore', file)
  assert.equal(code, 1)
  assert.match(err, /belongs to the previous file/)
  assert.equal(digest(`${file}-wal`), log)
})

test('a note with a second name is not written', async (t) => {
  const { cwd } = await withKey(t)
  const note = join(cwd, 'tranche.db-owner')
  rmSync(note, { force: true })
  writeFileSync(join(cwd, 'precious'), 'precious')
  linkSync(join(cwd, 'precious'), note)
  assert.equal((await trancheHere(join(cwd, 'tranche.db'), 'status')).code, 0)
  assert.equal(readFileSync(join(cwd, 'precious'), 'utf8'), 'precious')
})

// Only Linux shows who has a file locked.
if (process.platform === 'linux')
  test('restore keeps its lock from the first byte of the copy to the new name', async (t) => {
    const { cwd, file } = await withBackup(t)
    let seen = 0
    // A round may be over between two looks.
    for (let round = 0; seen <= 5; round++) {
      assert.ok(round < 50, `${seen} looks`)
      seen += await looksAtLock(t, cwd, file)
    }
  })

/** Restores over a large database, and returns how often it was seen locked while the copies were written. */
async function looksAtLock(t: TestContext, cwd: string, file: string): Promise<number> {
  const db = new SQLite(file)
  db.exec('create table more (x blob)')
  db.prepare('insert into more values (zeroblob(?))').run(40_000_000)
  db.close()
  const { ino } = statSync(file)
  const isLocked = () => new RegExp(`:${ino} `).test(readFileSync('/proc/locks', 'utf8'))
  const before = readdirSync(cwd).filter(isUnfinished).length
  const restoring = start(t, ['restore', 'backup.db'], { cwd })
  let seen = 0
  while (statSync(file).ino === ino && !restoring.hasEnded()) {
    // The list of locks is not a snapshot: one that others change just then may be missing from it.
    const wasLocked = isLocked() || isLocked()
    // Both looks are at the same moment only if nothing changed in between.
    if (seen > 0 && statSync(file).ino === ino)
      assert.ok(wasLocked, `the lock was given up after ${seen} looks`)
    // The new database is under the first such name, the copy of the old one under the second.
    if (wasLocked && readdirSync(cwd).filter(isUnfinished).length > before + 1) seen += 1
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.equal(await restoring.ended, 0, restoring.err())
  assert.notEqual(statSync(file).ino, ino)
  return seen
}

const isUnfinished = (name: string): boolean => /db\.(partial|replaced)-/.test(name)

test('processes that open and close the database all at once hinder nobody', async (t) => {
  const { cwd } = await withKey(t)
  const file = join(cwd, 'tranche.db')
  const others = ['a', 'b'].map(() => act(t, 'reopen', file))
  await Promise.all(others.map(({ prints }) => prints('opened')))
  for (let round = 0; round < 20; round++) {
    const { code, err } = await trancheHere(file, 'status')
    assert.deepEqual([code, err], [0, ''])
  }
  for (const { child, ended, err } of others) {
    child.stdin.end()
    assert.deepEqual([await ended, err()], [0, ''])
  }
})

// Checkpoints that a thread does while a service writes.

const PAGE_BYTES = 4_096 + 24
/** The size at which the thread checkpoints, and the largest that a log may become. */
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
  const call = callerOf(url, key)
  lengthen(file, 3_000)
  const left = LONG - size(`${file}-wal`)
  assert.ok(left > 0, 'the rest of it is for the service to write')
  // Sequential calls: each is a commit of its own.
  for (let n = 0; size(`${file}-wal`) < LONG; n++) {
    await call('POST', '/users', { ...USER, partner_user_id: `user-${n}-${'x'.repeat(200)}` })
    assert.ok(n * 2 * PAGE_BYTES < left, `${size(`${file}-wal`)} bytes after ${n} calls`)
  }
  child.kill('SIGTERM')
  assert.equal(await ended, 0)
  assert.deepEqual(beside(file), [false, false, false])
})

/** Writes so many pages to the log, as another process may, and checkpoints none of them. */
function lengthen(file: string, pages: number): void {
  const db = new SQLite(file)
  db.pragma('wal_autocheckpoint = 0')
  db.exec(`begin; create table filler (x); insert into filler values (zeroblob(${pages * 4_096})); commit`)
  db.close()
}
