// A backup is one moment of a database in use, whole and private, under its name or not there at all.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, linkSync, lstatSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { finish, PROGRAM, type Program, SOURCE, start } from '../support/process.ts'
import { beside, fatten, filled, mode, partials, soundUsers, tamper, trancheHere } from './copies.ts'
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
      assert.deepEqual(
        before.filter((user) => !users.has(user)),
        [],
      )
      assert.ok(answered().length > before.length, 'the writers went on')
      // One consistent moment: of what each process wrote in order, a beginning without gaps.
      for (const name of ['a', 'b']) {
        const own = [...users].filter((user) => user.startsWith(`${name}-`))
        assert.deepEqual(
          own,
          own.map((_, n) => `${name}-${n}`),
        )
      }
    }
    for (const { child } of writers) child.stdin.end()
    for (const writer of writers) assert.equal(await writer.ended, 0)
    const users = new Set(await soundUsers(t, file))
    assert.deepEqual(
      answered().filter((user) => !users.has(user)),
      [],
    )
  })

  test('a file that is there is kept, unless --force says otherwise', async (t) => {
    const file = await filled(t)
    const copy = backup(file)
    writeFileSync(copy, 'precious', { mode: 0o644 })
    const refused = await trancheHere(file, 'backup', copy, '--json')
    assert.equal(refused.code, 5)
    assert.equal(JSON.parse(refused.err).error.code, 'file_exists')
    assert.equal(readFileSync(copy, 'utf8'), 'precious')
    const forced = await trancheHere(file, 'backup', copy, '--force', '--json')
    assert.deepEqual(JSON.parse(forced.out).file, copy)
    assert.equal(mode(copy), 0o600)
    assert.deepEqual(await soundUsers(t, copy), ['u1'])
    assert.deepEqual(beside(file), ['copy.db', 'tranche.db'])
  })

  test('a pipe or a device is not replaced, and no --force is offered', async (t) => {
    const file = await filled(t)
    const [pipe, device] = ['pipe', 'device'].map((name) => join(dirname(file), name)) as [string, string]
    execFileSync('mkfifo', [pipe])
    // Of the kind of /dev/stdout. The device itself would be lost to the machine if this failed.
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
    const idle = act(t, 'idle', file)
    await idle.prints('open')
    const before = readFileSync(file)
    for (const name of ['tranche.db', 'link.db', 'second.db', 'tranche.db-wal']) {
      const { code, err } = await trancheHere(file, 'backup', join(folder, name), '--force')
      assert.equal(code, 2, name)
      assert.match(err, /belongs to the database itself/)
    }
    assert.deepEqual(readFileSync(file), before)
  })

  test('a kill in the middle leaves no file under the name', async (t) => {
    const file = await filled(t)
    const copy = backup(file)
    // Killed at the last moment before the copy would get its name: when it is about to be forced to disk.
    const kill = `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
      fs.fsyncSync = () => process.kill(process.pid, 'SIGKILL'); syncBuiltinESMExports()`
    const [node, ...rest] = SOURCE
    const program: Program = [node, '--import', `data:text/javascript,${encodeURIComponent(kill)}`, ...rest]
    const running = start(t, ['--db', file, 'backup', copy], { cwd: dirname(file), program })
    assert.equal(await running.ended, 'SIGKILL')
    assert.equal(existsSync(copy), false)
    assert.equal(partials(copy).length, 1)
    for (const name of partials(copy)) {
      if (!name.endsWith('-journal')) assert.equal(mode(join(dirname(file), name)), 0o600)
    }
    assert.equal((await trancheHere(file, 'backup', copy)).code, 0)
    assert.deepEqual(await soundUsers(t, copy), ['u1'])
  })

  test('a disk that is full fails the backup and leaves nothing of it', async (t) => {
    const file = await filled(t)
    fatten(file)
    const command = [...PROGRAM, '--db', file, 'backup', backup(file)].map((word) => `'${word}'`).join(' ')
    // A limit on the size of files takes the place of a full disk: blocks of 512 or 1024 bytes, far less than the copy.
    const { code, err } = await finish(t, ['-c', `ulimit -f 4000; exec ${command}`], {
      cwd: dirname(file),
      program: ['/bin/sh'],
    })
    assert.equal(code, 1)
    assert.match(err, /^error: .*(full|I\/O)/)
    assert.deepEqual(beside(file), ['tranche.db'])
    assert.deepEqual(await soundUsers(t, file), ['u1'])
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
    const nowhere = await trancheHere(file, 'backup', join(dirname(file), 'no', 'folder.db'))
    assert.equal(nowhere.code, 1)
    assert.deepEqual(beside(file), ['other.db', 'tranche.db'])
  })
})
