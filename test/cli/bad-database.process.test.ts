// What a command says of a --db that cannot work: one sentence with the path, whose it is, and the way out.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, constants, copyFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { filled, trancheHere } from '../store/copies.ts'
import { EXECUTABLE } from '../support/executable.ts'
import { CACHE } from '../support/process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a folder, and a file that is something else, are named', async (t) => {
  const folder = temporaryFolder(t)
  const asFolder = await trancheHere(folder, 'status')
  assert.equal(asFolder.code, 1)
  assert.equal(
    asFolder.err,
    `error: ${folder} is a folder: --db takes the file in it, such as ${folder}/tranche.db.\n`,
  )
  const letter = join(folder, 'letter.txt')
  writeFileSync(letter, 'this is a letter '.repeat(100))
  for (const argv of [['status'], ['tick', '--price', '60000'], ['check'], ['migrate']]) {
    const { code, err } = await trancheHere(letter, ...argv)
    assert.deepEqual([code, err.split('\n').length], [1, 2], err)
    assert.match(err, /letter\.txt is not a database, .*--db.*docs\/operations\.md/)
  }
})

/** Runs a script of mounts that nobody else sees; "$PROGRAM" is the program, "$FOLDER" the folder of the database. */
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
    assert.match(
      stderr,
      /^error: \S+ cannot be written, .* read-only disk copy the file and its -wal .*\n$/,
      command,
    )
  }
  const read = mounted(file, `${fixed} cp "$FOLDER"/tranche.db ${copy} && "$PROGRAM" --db ${copy} check`)
  assert.deepEqual([read.status, read.stderr], [0, ''])
  const full = `mkdir "$FOLDER"/small && mount -t tmpfs -o size=700k none "$FOLDER"/small && cp ${file} "$FOLDER"/small/db &&
    { head -c 9000000 /dev/zero > "$FOLDER"/small/fill; "$PROGRAM" --db "$FOLDER"/small/db tick --price 60000; }`
  const { status, stderr } = mounted(file, full)
  assert.equal(status, 1, stderr)
  assert.match(
    stderr,
    /The disk of \S+\/small\/db is full or fails \(0 KiB are free\), so what was under way is not recorded: make room/,
  )
})

/** Runs the program as nobody, which root alone can do; from a place that nobody may enter too. */
function asNobody(t: TestContext, file: string, ...argv: string[]) {
  const place = temporaryFolder(t)
  const program = join(place, 'tranche')
  copyFileSync(EXECUTABLE, program, constants.COPYFILE_FICLONE)
  chmodSync(place, 0o755)
  return spawnSync(program, ['--db', file, ...argv], {
    uid: 65_534,
    gid: 65_534,
    env: { TMPDIR: '/tmp' },
    encoding: 'utf8',
    cwd: '/',
  })
}

if (process.getuid?.() === 0) {
  test('a folder that may not be entered is not taken for an empty one', async (t) => {
    const file = await filled(t)
    const folder = dirname(file)
    const { status, stderr } = asNobody(t, file, 'status')
    assert.equal(status, 1, stderr)
    assert.match(
      stderr,
      /cannot be reached: the folder \S+ belongs to user 0 \(mode 700\) and may not be entered/,
    )
    assert.ok(stderr.includes(folder))
  })

  test('a folder that cannot be written says whose it is', async (t) => {
    const file = await filled(t)
    chmodSync(dirname(file), 0o755)
    chmodSync(file, 0o644)
    const { status, stderr } = asNobody(t, file, 'status')
    assert.equal(status, 1, stderr)
    assert.match(stderr, /^error: \S+tranche\.db cannot be written, .*belongs to user 0 \(mode 755\).*\n$/)
  })
}
