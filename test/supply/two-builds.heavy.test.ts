// Whether somebody else can make the same executable from the same commit: a second build, as different as can be.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { EXECUTABLE } from '../support/process.ts'

const ROOT = join(import.meta.dirname, '../..')
const NAME = basename(EXECUTABLE)
const FOLDERS = ['bin', 'sql', 'src', 'docs', 'deploy']
const FILES = ['README.md', 'CHANGELOG.md', 'package.json', 'package-lock.json', 'tsconfig.json']
const MADE = [`${NAME}.sha256`, `${NAME}.cdx.json`, 'LICENSES.txt']

test('two builds give the same bytes, whatever the folder, the umask, the time zone and the language', (t) => {
  const elsewhere = join(temporaryFolder(t), 'another place')
  mkdirSync(elsewhere)
  for (const part of [...FOLDERS, ...FILES])
    cpSync(join(ROOT, part), join(elsewhere, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(elsewhere, 'node_modules'))
  const env = { PATH: process.env.PATH, TMPDIR: elsewhere, TZ: 'Asia/Tokyo', LANG: 'tr_TR.UTF-8' }
  const build = ['-c', 'umask 000 && exec "$@"', 'sh', process.execPath, join(elsewhere, 'bin/build.ts')]
  execFileSync('sh', build, { cwd: '/', env, stdio: 'pipe' })
  // The first has the hash of the executable, which the build takes of the file itself.
  for (const name of MADE)
    assert.equal(
      readFileSync(join(elsewhere, 'dist', name), 'utf8'),
      readFileSync(join(dirname(EXECUTABLE), name), 'utf8'),
      name,
    )
})
