// Every file the program makes, under a umask that takes nothing away: only its owner may read it, and another user of
// the machine is turned away.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, globSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { finish, PROGRAM, type Program, startServe } from '../support/process.ts'
import { PLAN, USER } from '../support/service.ts'
import { canBeOthers } from '../support/tools.ts'

const OPEN: Program = ['/bin/sh', '-c', 'umask 000; exec "$@"', 'sh', ...PROGRAM]
const OTHER_UID = 65_534

/** What is there while a service runs and commands were given. */
const FILES = [
  'cache/better_sqlite3-*.node',
  'copy.db',
  'month.csv',
  'tranche.db',
  'tranche.db-import',
  'tranche.db-owner',
  'tranche.db-shm',
  'tranche.db-tick',
  'tranche.db-wal',
]

test('whatever the umask, each file is its owner’s alone', async (t) => {
  const cwd = temporaryFolder(t)
  const options = { cwd, program: OPEN, env: { TRANCHE_CACHE: join(cwd, 'cache') } }
  const run = async (...argv: string[]): Promise<string> => {
    const { code, out, err } = await finish(t, argv, options)
    assert.equal(code, 0, `${argv.join(' ')}: ${err}`)
    return out.trim()
  }
  await run('partner', 'create', 'acme', '--name', 'Acme')
  const key = await run('key', 'create', 'acme', '--env', 'live')
  const served = await startServe(t, ['--tick-every', 'off'], options)
  for (const [path, body] of [
    ['users', USER],
    ['plans', PLAN],
  ] as const) {
    const headers = { authorization: `Bearer ${key}` }
    const call = { method: 'POST', headers, body: JSON.stringify(body) }
    assert.equal((await fetch(`${served.url}/partner/v1/${path}`, call)).status, 200)
  }
  await run('tick', '--price', '60000')
  writeFileSync(join(cwd, 'prices.csv'), 'time,price\n2026-01-01T00:00:00Z,60000\n')
  await run('price', 'import', 'prices.csv')
  await run('billing', 'export', '--month', '2026-01', '--output', 'month.csv')
  await run('backup', 'copy.db')
  assertPrivate(cwd, FILES)

  served.child.kill('SIGTERM')
  assert.equal(await served.ended, 0)
  await run('restore', 'copy.db')
  assertPrivate(cwd, ['copy.db', 'tranche.db', 'tranche.db.replaced-*'])
})

/** Each pattern has its file, and no file of the folder but the one written here may be read by others. */
function assertPrivate(cwd: string, patterns: string[]): void {
  for (const pattern of patterns) assert.equal(globSync(pattern, { cwd }).length, 1, pattern)
  const made = globSync('**', { cwd, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'prices.csv')
    .map((entry) => join(entry.parentPath, entry.name))
  assert.ok(made.length >= patterns.length)
  for (const file of made) assert.equal((statSync(file).mode & 0o777).toString(8), '600', file)
  assert.equal((statSync(join(cwd, 'cache')).mode & 0o777).toString(8), '700')
  if (!canBeOthers()) return
  // The folder itself is open here, so that the modes of the files are all that keeps another user out.
  chmodSync(cwd, 0o755)
  const read = (file: string) => spawnSync('cat', [file], { uid: OTHER_UID, gid: OTHER_UID, cwd: '/' })
  assert.equal(read(join(cwd, 'prices.csv')).status, 0, 'the other user gets into the folder')
  for (const file of made) {
    const { status, stdout } = read(file)
    assert.deepEqual([status, stdout.length], [1, 0], file)
  }
}
