// Commands on a database file that is missing, bad, locked, or in a folder without permissions: their messages and
// their effects.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  constants,
  copyFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { filled, trancheHere } from '../store/copies.ts'
import { temporaryFolder } from '../support/database.ts'
import { CACHE, EXECUTABLE, finish, startServe } from '../support/process.ts'
import { errorOf, runHere, withPartner } from '../support/service.ts'
import { canBeOthers } from '../support/tools.ts'

test('a folder without a database gets one, which is said loudly; --no-create refuses, with the path', async (t) => {
  const cwd = temporaryFolder(t)
  const refused = await finish(t, ['serve', '--no-create', '--port', '0'], { cwd })
  const missing = `error: There is no database at ${join(cwd, 'tranche.db')}: name the right one with --db, or begin one there with \`partner create SLUG --name NAME\`.\n`
  assert.deepEqual([refused.code, refused.err, readdirSync(cwd)], [4, missing, []])
  const first = await startServe(t, [], { cwd })
  const { level, db, msg } = JSON.parse(await first.line('this database has no partner yet'))
  assert.deepEqual([level, db], ['warn', join(cwd, 'tranche.db')])
  assert.match(msg, /^there was no database here, so a new one was made; /)
  first.child.kill('SIGTERM')
  assert.equal(await first.ended, 0)
  const second = await startServe(t, ['--no-create'], { cwd })
  assert.match(JSON.parse(await second.line('this database has no partner yet')).msg, /^this database/)
  // A service whose database is gone is up and not ready.
  const { url } = second
  for (const name of readdirSync(cwd)) renameSync(join(cwd, name), join(cwd, `was-${name}`))
  const asked = (...more: string[]) => runHere(['health', '--url', url, ...more])
  const [up, ready, json] = await Promise.all([asked(), asked('--ready'), asked('--ready', '--json')])
  assert.deepEqual([up.code, ready.code, ready.out], [0, 1, `${url}/readyz: HTTP 503\n`])
  assert.deepEqual(JSON.parse(json.out), { ok: false, url: `${url}/readyz`, answer: 'HTTP 503' })
})

test('what --db or TRANCHE_DB names and is not there is named, and nothing is made in its place', async (t) => {
  const cwd = temporaryFolder(t)
  const env = { TRANCHE_DB: join(cwd, 'gone.db') }
  const begin = 'or begin one there with `partner create SLUG'
  const inVariable = await finish(t, ['partner', 'list'], { cwd, env })
  assert.ok(
    inVariable.err.includes(`gone.db: TRANCHE_DB names it; put the right one there, ${begin}`),
    inVariable.err,
  )
  const given = await finish(t, ['--db', 'other.db', 'partner', 'list'], { cwd, env })
  assert.ok(given.err.includes(`other.db: name the right one with --db, ${begin}`), given.err)
  assert.deepEqual(readdirSync(cwd), [])
})

test('exit 11 when another process keeps the database locked', async (t) => {
  const shell = await withPartner(t)
  const other = new SQLite(shell.file)
  t.after(() => other.close())
  other.exec('begin immediate')
  // The clock ends the wait: it advances with the timers, or this would be a real wait of fifteen busy seconds.
  let now = performance.now()
  t.mock.method(performance, 'now', () => now)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const held = shell.tranche(['partner', 'disable', 'beta', '--json'])
  let waiting = true
  held.then(() => {
    waiting = false
  })
  while (waiting) {
    now += 1_000
    t.mock.timers.tick(1_000)
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { code, out, err } = await held
  assert.deepEqual([code, out], [11, ''])
  const message = 'The database stayed locked by another process for 15 s.'
  assert.deepEqual(errorOf(err), { code: 'database_locked', message })
})

// A --db that cannot work is refused in one sentence with the path, the owner, and the remedy.

test('a folder, and a file that is something else, are named', async (t) => {
  const folder = temporaryFolder(t)
  for (const argv of [['status'], ['copy', '--unseal', '--yes']]) {
    const { code, err } = await trancheHere(folder, ...argv)
    const said = `error: ${folder} is a folder: --db takes the file in it, such as ${folder}/tranche.db.\n`
    assert.deepEqual([code, err], [1, said])
  }
  const letter = join(folder, 'letter.txt')
  writeFileSync(letter, 'this is a letter '.repeat(100))
  for (const argv of [['status'], ['tick', '--price', '60000'], ['check'], ['migrate']]) {
    const { code, err } = await trancheHere(letter, ...argv)
    assert.deepEqual([code, err.split('\n').length], [1, 2], err)
    assert.match(err, /letter\.txt is not a database, .*--db.*`tranche docs reference`/)
  }
})

/** Runs a script with private mounts; "$PROGRAM" is the program, "$FOLDER" the folder of the database. */
function mounted(file: string, script: string) {
  const env = { ...process.env, ...CACHE, PROGRAM: EXECUTABLE, FOLDER: dirname(file), TRANCHE_DB: file }
  return spawnSync('unshare', ['-m', 'sh', '-c', script], { env, encoding: 'utf8' })
}

test('a read-only disk and a full one get one sentence, and a copy elsewhere works', async (t) => {
  const file = await filled(t)
  if (mounted(file, 'mount --bind "$FOLDER" "$FOLDER"').status !== 0) {
    t.diagnostic('NOT TESTED: this user may not mount')
    return
  }
  const copy = join(temporaryFolder(t), 'copy.db')
  const fixed = 'mount --bind "$FOLDER" "$FOLDER" && mount -o remount,ro,bind "$FOLDER" && '
  for (const command of ['check', 'status', 'tick --price 60000', `backup ${copy}`]) {
    const { status, stderr } = mounted(file, `${fixed} "$PROGRAM" ${command}`)
    assert.equal(status, 1, command)
    const said = /^error: \S+ cannot be written, .* read-only disk copy the file and its -wal .*\n$/
    assert.match(stderr, said, command)
  }
  const read = mounted(file, `${fixed} cp "$FOLDER"/tranche.db ${copy} && "$PROGRAM" --db ${copy} check`)
  assert.deepEqual([read.status, read.stderr], [0, ''])
  const full = `mkdir "$FOLDER"/small && mount -t tmpfs -o size=700k none "$FOLDER"/small && cp ${file} "$FOLDER"/small/db &&
    { head -c 9000000 /dev/zero > "$FOLDER"/small/fill; "$PROGRAM" --db "$FOLDER"/small/db tick --price 60000; }`
  const { status, stderr } = mounted(file, full)
  assert.equal(status, 1, stderr)
  assert.match(
    stderr,
    /The disk of \S+\/small\/db is full or has failed \(0 KiB are free\), so the work in progress is not recorded: make room/,
  )
  // Where the copy just fits, SQLite has no room for its own files, and says only that the disk has failed.
  const tight = `mkdir "$FOLDER"/tight && mount -t tmpfs -o size=$(du -k ${file} | cut -f1)k none "$FOLDER"/tight &&
    "$PROGRAM" --db "$FOLDER"/tight/db restore ${file}`
  const restored = mounted(file, tight)
  assert.equal(restored.status, 1, restored.stderr)
  assert.match(
    restored.stderr,
    /if the disk of \S+\/tight is full \(\d+ KiB are free\), make room there; run it again/,
  )
})

test('restore sees who uses a database on an overlay, whatever its folder is called', async (t) => {
  const file = await filled(t)
  // The list of locks names another device than stat does there, and the list of mounts writes a space as \\040.
  const layers = 'lowerdir="$FOLDER"/low,upperdir="$FOLDER"/layers/up,workdir="$FOLDER"/layers/work'
  const laid = `cd "$FOLDER" && mkdir low layers 'a b' && mount -t tmpfs none layers && mkdir layers/up layers/work &&
    mount -t overlay none -o ${layers} "$FOLDER/a b"`
  if (mounted(file, laid).status !== 0) {
    t.diagnostic('NOT TESTED: this user may not mount an overlay')
    return
  }
  const { status, stdout, stderr } = mounted(
    file,
    `cd "$FOLDER" && rmdir low layers 'a b' && ${laid} && "$PROGRAM" backup kept.db && cp kept.db 'a b/db' &&
    { "$PROGRAM" --db 'a b/db' serve --port 0 --tick-every off 2> log & serve=$!
      until grep -q listening log; do sleep 0.1; done
      "$PROGRAM" --db 'a b/db' restore kept.db; status=$?
      kill $serve; wait $serve; exit $status; }`,
  )
  assert.deepEqual([status, stdout.split('\n').length], [11, 2], stderr)
  assert.match(stderr, /a b\/db is open in another process: stop serve and cron first/)
})

/** Runs the program as nobody, which only root can do. */
function asNobody(argv: readonly string[], env = {}) {
  return spawnSync(programForAll(), argv, {
    uid: 65_534,
    gid: 65_534,
    env: { TMPDIR: '/tmp', ...env },
    encoding: 'utf8',
    cwd: '/',
    timeout: 60_000,
  })
}

let program: string | undefined

/** A copy of the program that nobody may run too. */
function programForAll(): string {
  if (program) return program
  const place = temporaryFolder({ after: (end) => after(end as () => void) })
  program = join(place, 'tranche')
  copyFileSync(EXECUTABLE, program, constants.COPYFILE_FICLONE)
  chmodSync(place, 0o755)
  return program
}

if (canBeOthers()) {
  test('a folder that may not be entered is not taken for an empty one', async (t) => {
    const file = await filled(t)
    const closed = `the folder ${dirname(file)} belongs to root (mode 700) and is closed to this user; run the command as root, with \`sudo\` before it`
    for (const argv of [['status'], ['serve', '--port', '0'], ['partner', 'create', 'beta', '--name', 'B']]) {
      const { status, stderr } = asNobody(['--db', file, ...argv])
      const said = `error: ${file} cannot be reached: ${closed}.\n`
      assert.deepEqual([status, stderr], [1, said], argv.join(' '))
    }
    // The outermost folder is the one that denies access to those inside it.
    const below = join(dirname(file), 'below', 'tranche.db')
    mkdirSync(dirname(below))
    const { stderr } = asNobody(['--db', below, 'status'])
    assert.equal(stderr, `error: ${below} cannot be reached: ${closed}.\n`)
  })

  test('a folder that cannot be written says whose it is', async (t) => {
    const file = await filled(t)
    chmodSync(dirname(file), 0o755)
    chmodSync(file, 0o644)
    const { status, stderr } = asNobody(['--db', file, 'status'])
    assert.equal(status, 1, stderr)
    assert.match(
      stderr,
      /^error: \S+tranche\.db cannot be written, .*belongs to root \(mode 755\), the file to root \(mode 644\); run the command as root, with `sudo` before it.*\n$/,
    )
    const inVariable = asNobody(['status'], { TRANCHE_DB: file }).stderr
    const after = `with \`sudo\` before it and \`--db ${file}\` after it, for sudo drops TRANCHE_DB`
    assert.ok(inVariable.includes(after), inVariable)
    assert.doesNotMatch(stderr, /drops/)
    chownSync(file, 65_534, 65_534)
    chmodSync(file, 0o400)
    assert.match(asNobody(['--db', file, 'status']).stderr, /as you own it, run `chmod u\+rwX \S+\*`/)
    const made = join(dirname(file), 'made.db')
    for (const argv of [
      ['serve', '--port', '0'],
      ['partner', 'create', 'beta', '--name', 'B'],
      ['migrate'],
    ]) {
      const { status, stderr } = asNobody(['--db', made, ...argv])
      assert.equal(status, 1, stderr)
      assert.match(
        stderr,
        /^error: \S+made\.db cannot be written: the folder \S+ belongs to root \(mode 755\), and this user has no permission to write in it; name another file, or run .*\n$/,
      )
    }
  })
}
