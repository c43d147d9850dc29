// Backups and restores as processes: whole or not at all, whatever runs meanwhile and however they end.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { temporaryFolder } from '../support/database.ts'
import { canBeOthers } from '../support/tools.ts'
import { beside, filled, mode, soundUsers, tamper, trancheHere, valueIn } from './copies.ts'
import { act, tranche } from './second-process.ts'

const backup = (file: string) => join(dirname(file), 'copy.db')

suite('backup', { concurrency: 3 }, () => {
  test('a copy holds all that was answered before it began, while two processes go on writing', async (t) => {
    const file = await filled(t)
    const writers = ['a', 'b'].map((name) => act(t, 'write', file, name))
    await Promise.all(writers.map((writer, i) => writer.prints(`${'ab'[i]}-20\n`)))
    const answered = () => writers.flatMap((writer) => writer.out().trim().split('\n'))
    for (const round of [1, 2]) {
      const before = answered()
      const copy = `${backup(file)}-${round}`
      const { code, err } = await tranche(t, file, 'backup', copy)
      assert.deepEqual([code, err], [0, ''])
      assert.equal(mode(copy), 0o600)
      const users = new Set(await soundUsers(t, copy))
      assert.ok(before.every((user) => users.has(user)))
      assert.ok(answered().length > before.length, 'the writers went on')
      // A consistent moment: of each process's ordered writes, a beginning without gaps.
      for (const name of ['a', 'b']) {
        const own = [...users].filter((user) => user.startsWith(`${name}-`))
        assert.ok(own.every((user, n) => user === `${name}-${n}`))
      }
    }
    for (const { child } of writers) child.stdin.end()
    for (const writer of writers) assert.equal(await writer.ended, 0)
    const users = new Set(await soundUsers(t, file))
    assert.ok(answered().every((user) => users.has(user)))
  })

  test('a file that is there is kept, unless --force says otherwise', async (t) => {
    const file = await filled(t)
    const copy = backup(file)
    writeFileSync(copy, 'precious', { mode: 0o644 })
    const refused = await trancheHere(file, 'backup', copy, '--json')
    assert.equal(refused.code, 5)
    assert.equal(JSON.parse(refused.err).error.code, 'file_exists')
    assert.equal(readFileSync(copy, 'utf8'), 'precious')
    const { out } = await trancheHere(file, 'backup', copy, '--force', '--json')
    assert.equal(JSON.parse(out).file, copy)
    assert.equal(mode(copy), 0o600)
    assert.deepEqual(await soundUsers(t, copy), ['u1'])
    assert.deepEqual(beside(file), ['copy.db', 'tranche.db'])
  })

  test('a pipe or a device is not replaced, and no --force is offered', async (t) => {
    const file = await filled(t)
    const [pipe, device] = ['pipe', 'device'].map((name) => join(dirname(file), name)) as [string, string]
    execFileSync('mkfifo', [pipe])
    // A link like /dev/stdout. The device itself would be lost to the machine if this failed.
    symlinkSync('/dev/null', device)
    for (const place of [pipe, device])
      for (const force of [[], ['--force']]) {
        const { code, out, err } = await trancheHere(file, 'backup', place, ...force)
        assert.deepEqual([code, out], [1, ''], place)
        assert.equal(err, `error: ${place} is a pipe or a device, and not a file: name another.\n`)
      }
    assert.ok(lstatSync(pipe).isFIFO())
    assert.ok(lstatSync(device).isSymbolicLink())
    assert.deepEqual(beside(file), ['device', 'pipe', 'tranche.db'])
  })

  test('the database itself is no place for its backup, under whatever name', async (t) => {
    const file = await filled(t)
    const folder = dirname(file)
    symlinkSync(file, join(folder, 'link.db'))
    linkSync(file, join(folder, 'second.db'))
    await act(t, 'idle', file).prints('open')
    const before = readFileSync(file)
    for (const name of ['tranche.db', 'link.db', 'second.db', 'tranche.db-wal']) {
      const { code, err } = await trancheHere(file, 'backup', join(folder, name), '--force')
      assert.equal(code, 2, name)
      assert.match(err, /belongs to the database itself/)
    }
    assert.deepEqual(readFileSync(file), before)
  })

  test('what is damaged or no database of ours is not passed off as a backup', async (t) => {
    const file = await filled(t)
    tamper(file, 'pragma ignore_check_constraints = on; update windows set reserved = budget + 1')
    const bent = await trancheHere(file, 'backup', backup(file))
    assert.equal(bent.code, 1)
    assert.match(bent.err, /damaged: CHECK constraint failed in windows/)
    const other = join(dirname(file), 'other.db')
    tamper(other, 'create table theirs (x)')
    assert.equal((await trancheHere(other, 'backup', backup(file))).code, 2)
    assert.equal((await trancheHere(`${file}-none`, 'backup', backup(file))).code, 4)
    assert.equal((await trancheHere(file, 'backup', join(dirname(file), 'no', 'folder.db'))).code, 1)
    assert.deepEqual(beside(file), ['other.db', 'tranche.db'])
  })
})

// A restore verifies first, never replaces an open database, and loses neither file.

/** A database, and a copy of it in another folder from before user u2. */
async function withCopy(t: TestContext): Promise<{ file: string; copy: string }> {
  const file = await filled(t)
  const copy = join(temporaryFolder(t), 'copy.db')
  assert.equal((await trancheHere(file, 'backup', copy)).code, 0)
  setEmail(file, 'later@example.com')
  return { file, copy }
}

/** Writes the address as the program would have. */
const setEmail = (file: string, address: string): void =>
  tamper(file, `update users set email = '${address}'`)

const email = (file: string): unknown => valueIn(file, 'select email from users')

const kept = (file: string): string[] =>
  readdirSync(dirname(file))
    .filter((name) => name.includes('.replaced-'))
    .map((name) => join(dirname(file), name))

async function refused(file: string, copy: string, code: number, reason: RegExp) {
  const before = readFileSync(file)
  const outcome = await trancheHere(file, 'restore', copy)
  assert.deepEqual([outcome.code, outcome.out], [code, ''])
  assert.match(outcome.err, reason)
  assert.deepEqual(readFileSync(file), before)
  assert.deepEqual(beside(file), ['tranche.db'])
}

suite('restore', { concurrency: 3 }, () => {
  test('the copy takes the place of the database, which is kept, and the audit log says so', async (t) => {
    const { file, copy } = await withCopy(t)
    const before = readFileSync(copy)
    const { code, out } = await trancheHere(file, 'restore', copy, '--json')
    assert.equal(code, 0)
    const [replaced = ''] = kept(file)
    const { next, since_copy, ...done } = JSON.parse(out)
    assert.deepEqual([since_copy.stops, since_copy.unread], [[], []])
    const nothing = { replaced_log: null, played_in: [], frozen: true, erased_again: 0 }
    assert.deepEqual(done, { file, replaced, ...nothing })
    assert.match(next.at(-1).command, / resume$/)
    assert.deepEqual([email(file), email(replaced)], [null, 'later@example.com'])
    assert.deepEqual([mode(file), mode(replaced)], [0o600, 0o600])
    assert.deepEqual(readFileSync(copy), before)
    assert.deepEqual(readdirSync(dirname(copy)), ['copy.db'])
    assert.equal(beside(file).length, 2)
    assert.deepEqual(await soundUsers(t, replaced), ['u1'])
    const { action, detail } = JSON.parse((await trancheHere(file, 'audit', '--json')).out).at(-1)
    assert.deepEqual([action, detail], ['database.restore', { from: copy }])
    assert.equal((await trancheHere(file, 'check')).code, 0)
  })

  test('on a machine without a database there is one afterwards', async (t) => {
    const { copy } = await withCopy(t)
    const file = join(temporaryFolder(t), 'tranche.db')
    const { code, out } = await trancheHere(file, 'restore', copy)
    assert.deepEqual([code, out.split('\n')[0]], [0, `${file} restored`])
    assert.deepEqual([mode(file), await soundUsers(t, file)], [0o600, ['u1']])
  })

  test('while another process has the database open it stays, however idle; a kill of that leaves its log to the old one', async (t) => {
    const { file, copy } = await withCopy(t)
    const idle = act(t, 'idle', file)
    await idle.prints('open')
    await refused(file, copy, 11, /open in another process: stop serve and cron first/)
    setEmail(file, 'killed@example.com')
    idle.child.kill('SIGKILL')
    await idle.ended
    assert.ok(statSync(`${file}-wal`).size > 0)
    assert.equal((await trancheHere(file, 'restore', copy)).code, 0)
    // The log that the kill left goes with the old database.
    assert.deepEqual([email(file), kept(file).map(email)], [null, ['killed@example.com']])
  })

  test('what cannot be used is refused, and everything stays as it was', async (t) => {
    const { file, copy } = await withCopy(t)
    const bad = join(dirname(copy), 'bad.db')
    await refused(file, bad, 4, /There is no file/)
    await refused(file, file, 2, /is the database itself/)
    writeFileSync(bad, 'a letter, and no database '.repeat(100))
    await refused(file, bad, 1, /bad\.db is not a database\./)
    writeFileSync(bad, '')
    await refused(file, bad, 1, /is not a tranche database: it is empty/)
    copyFileSync(copy, bad)
    truncateSync(bad, statSync(copy).size - 4096)
    await refused(file, bad, 1, /is damaged/)
    rmSync(bad)
    tamper(bad, 'create table theirs (x)')
    await refused(file, bad, 1, /is not a tranche database/)
    copyFileSync(copy, bad)
    tamper(bad, "insert into migrations values ('9999_future.sql', 'ff', 1)")
    await refused(file, bad, 12, /does not know: upgrade tranche/)
    copyFileSync(copy, bad)
    tamper(bad, "update migrations set sha256 = 'other'")
    await refused(file, bad, 1, /another content/)
  })

  for (const how of ['damaged beyond reading', 'lost'] as const) {
    test(`a database that is ${how}, its log still there, is replaced all the same`, async (t) => {
      const { file, copy } = await withCopy(t)
      const idle = act(t, 'idle', file)
      await idle.prints('open')
      setEmail(file, 'killed@example.com')
      idle.child.kill('SIGKILL')
      await idle.ended
      assert.ok(statSync(`${file}-wal`).size > 0)
      const log = readFileSync(`${file}-wal`)
      // The log alone would repair the damaged page: SQLite looks at the header first.
      if (how === 'lost') renameSync(file, join(dirname(copy), 'lost.db'))
      else writeFileSync(file, 'damaged '.repeat(64), { flag: 'r+' })
      writeFileSync(`${file}-shm`, '')
      const { code, err } = await trancheHere(file, 'restore', copy)
      assert.equal(code, 0)
      // Its records of the time since the copy are lost, and the output says so.
      assert.match(err, how === 'lost' ? /^$/ : /^warning: not read: partner_disabled, .*\n$/)
      assert.equal(email(file), null)
      assert.deepEqual(await soundUsers(t, file), ['u1'])
      const [keptLog = ''] = kept(file).filter((name) => name.endsWith('-wal'))
      if (how === 'lost') assert.deepEqual(readFileSync(keptLog), log)
      assert.equal(existsSync(`${file}-wal`), false)
    })
  }

  test('at no moment is there no database, nor half of one', async (t) => {
    const { file, copy } = await withCopy(t)
    let looks = 0
    let over = false
    const watching = (async () => {
      for (; !over; looks++) {
        assert.equal(readFileSync(file).subarray(0, 15).toString(), 'SQLite format 3')
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    while (looks < 100) assert.equal((await tranche(t, file, 'restore', copy)).code, 0)
    over = true
    await watching
  })

  test('a database with a second name is refused, a restore gives none a second one, and a link stays a link', async (t) => {
    const { file, copy } = await withCopy(t)
    const second = join(dirname(copy), 'second.db')
    linkSync(file, second)
    await refused(file, copy, 2, /tranche\.db has 2 names \(hard links\)/)
    rmSync(second)
    symlinkSync(file, second)
    assert.equal((await trancheHere(second, 'restore', copy)).code, 0)
    assert.deepEqual([email(file), email(second), kept(file).length], [null, null, 1])
    assert.equal((await trancheHere(file, 'restore', second)).code, 2)
    const [replaced = ''] = kept(file)
    assert.deepEqual([statSync(file).nlink, statSync(replaced).nlink, statSync(copy).nlink], [1, 1, 1])
  })

  // Only root can give files away, and only root's restore could take them.
  if (canBeOthers()) {
    test('as root it keeps the owner and the mode of what it replaces, and of the folder where there is nothing', async (t) => {
      const { file, copy } = await withCopy(t)
      chownSync(dirname(file), 65_534, 65_533)
      chownSync(file, 65_534, 65_533)
      chmodSync(file, 0o640)
      const rights = (name: string) => {
        const { uid, gid } = statSync(name)
        return [uid, gid, mode(name)]
      }
      assert.equal((await trancheHere(file, 'restore', copy)).code, 0)
      for (const name of [file, ...kept(file)]) assert.deepEqual(rights(name), [65_534, 65_533, 0o640], name)
      // The service opens the files that root's commands create beside it.
      assert.equal((await trancheHere(file, 'resume', '--yes')).code, 0)
      assert.equal((await trancheHere(file, 'tick', '--price', '60000')).code, 0)
      for (const name of readdirSync(dirname(file)).filter((name) => /-(tick|wal|shm)$/.test(name)))
        assert.deepEqual(rights(join(dirname(file), name)).slice(0, 2), [65_534, 65_533], name)
      const fresh = join(dirname(file), 'fresh.db')
      assert.equal((await trancheHere(fresh, 'restore', copy)).code, 0)
      assert.deepEqual(rights(fresh), [65_534, 65_533, 0o600])
    })
  }

  test('a process that had the file open when it gave way cannot write to what is no longer there', async (t) => {
    const { file, copy } = await withCopy(t)
    // Opened and not yet in use: such a connection holds no visible lock.
    const early = new SQLite(file)
    t.after(() => early.close())
    assert.equal((await tranche(t, file, 'restore', copy)).code, 0)
    assert.throws(() => early.exec("pragma journal_mode = wal; update users set email = 'lost@example.com'"))
    assert.deepEqual([email(file), await soundUsers(t, file)], [null, ['u1']])
    assert.equal(email(kept(file)[0] ?? ''), 'later@example.com')
  })
})
