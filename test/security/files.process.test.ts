// Files that the program makes or loads: only their owner may read or replace them, and a crash leaves no core.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { finish, PROGRAM, type Program, startServe } from '../support/process.ts'
import { me, PLAN, USER, withKey } from '../support/service.ts'
import { canBeOthers } from '../support/tools.ts'

const OPEN: Program = ['/bin/sh', '-c', 'umask 000; exec "$@"', 'sh', ...PROGRAM]
const OTHER_UID = 65_534

/** The files that exist while a service runs and commands were given. */
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

/** Each pattern has its file, and others may read no file of the folder except the one written here. */
function assertPrivate(cwd: string, patterns: string[]): void {
  for (const pattern of patterns) assert.equal(globSync(pattern, { cwd }).length, 1, pattern)
  const made = globSync('**', { cwd, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'prices.csv')
    .map((entry) => join(entry.parentPath, entry.name))
  assert.ok(made.length >= patterns.length)
  for (const file of made) assert.equal((statSync(file).mode & 0o777).toString(8), '600', file)
  assert.equal((statSync(join(cwd, 'cache')).mode & 0o777).toString(8), '700')
  if (!canBeOthers()) return
  // The folder itself is open here, so that only the modes of the files deny access to another user.
  chmodSync(cwd, 0o755)
  const read = (file: string) => spawnSync('cat', [file], { uid: OTHER_UID, gid: OTHER_UID, cwd: '/' })
  assert.equal(read(join(cwd, 'prices.csv')).status, 0, 'the other user gets into the folder')
  for (const file of made) {
    const { status, stdout } = read(file)
    assert.deepEqual([status, stdout.length], [1, 0], file)
  }
}

// Core files after a crash: one would hold the keys of recent calls, so none may be written.

const DEPLOY = join(import.meta.dirname, '../../deploy')
const cores = (folder: string): string[] => readdirSync(folder).filter((name) => name.startsWith('core'))

/** The limit in the unit of serve. */
const limitOfUnit = (): string =>
  /^LimitCORE=(\d+)$/m.exec(readFileSync(join(DEPLOY, 'tranche.service'), 'utf8'))?.[1] ?? 'unlimited'

test('a serve that crashes under the limit of its unit leaves no core file', async (t) => {
  const { cwd, key } = await withKey(t)
  // From no limit at all, whatever the test itself was started under.
  const limit = `ulimit -S -c unlimited; ulimit -S -c ${limitOfUnit()}; exec "$@"`
  const program: Program = ['/bin/sh', '-c', limit, 'sh', ...PROGRAM]
  const served = await startServe(t, [], { cwd, program })
  assert.equal((await me(served.url, key)).status, 200)
  if (process.platform === 'linux')
    assert.match(readFileSync(`/proc/${served.child.pid}/limits`, 'utf8'), /^Max core file size +0 /m)
  served.child.kill('SIGABRT')
  assert.equal(await served.ended, 'SIGABRT')
  assert.deepEqual(cores(cwd), [])
})

test('the container lets no core file be written', () => {
  assert.match(readFileSync(join(DEPLOY, 'README.md'), 'utf8'), /^docker run [\s\S]*? --ulimit core=0\b/m)
})

// The SQLite addon, code that is unpacked into a folder: attacks by another user of the machine.

const uid = process.getuid?.() ?? 0
const STICKY = 0o1777
const PLANTED = 'not the addon'

/** No cache and no home: only the temporary folder is left. */
const homeless = (tmp: string) => ({ TRANCHE_CACHE: undefined, HOME: undefined, TMPDIR: tmp })

const create = (t: TestContext, env: Record<string, string | undefined>) =>
  finish(t, ['migrate', '--json'], { cwd: temporaryFolder(t), env })

/** The stored name of the addon, which anybody can derive from the executable. */
async function addonName(t: TestContext): Promise<string> {
  const cache = join(temporaryFolder(t), 'cache')
  assert.equal((await create(t, { TRANCHE_CACHE: cache })).code, 0)
  return readdirSync(cache)[0] ?? ''
}

suite('the unpacked addon', { concurrency: 2 }, () => {
  test('a temporary folder in which anybody can rename is not used at all', async (t) => {
    const tmp = temporaryFolder(t)
    chmodSync(tmp, 0o777)
    const { code, err } = await create(t, homeless(tmp))
    assert.equal(code, 1)
    assert.match(JSON.parse(err).error.message, /set TRANCHE_CACHE.*can be changed by others/)
    assert.deepEqual(readdirSync(tmp), [])
  })

  test('a link on the way to the folder counts as what it leads to', async (t) => {
    const home = temporaryFolder(t)
    const real = temporaryFolder(t)
    symlinkSync(real, join(home, 'link'))
    const cache = join(home, 'link', 'cache')
    assert.equal((await create(t, { TRANCHE_CACHE: cache })).code, 0)
    assert.equal(readdirSync(join(real, 'cache')).length, 1)
  })

  if (canBeOthers()) {
    test('a folder that another user made first, with a file of the right name in it, is left alone', async (t) => {
      const name = await addonName(t)
      const tmp = temporaryFolder(t)
      chmodSync(tmp, STICKY)
      const trap = join(tmp, `tranche-${uid}`)
      mkdirSync(trap)
      writeFileSync(join(trap, name), PLANTED)
      for (const path of [trap, join(trap, name)]) chownSync(path, OTHER_UID, OTHER_UID)
      chmodSync(trap, 0o777)
      const { code, err } = await create(t, homeless(tmp))
      assert.deepEqual([code, err], [0, ''])
      assert.deepEqual(readdirSync(trap), [name])
      assert.equal(readFileSync(join(trap, name), 'utf8'), PLANTED)
      assert.deepEqual(readdirSync(tmp), [basename(trap)], 'what this process alone used is gone')
    })

    test('a file that another user planted in our own folder is replaced before it is loaded', async (t) => {
      const name = await addonName(t)
      const cache = join(temporaryFolder(t), 'cache')
      assert.equal((await create(t, { TRANCHE_CACHE: cache })).code, 0)
      const good = readFileSync(join(cache, name))
      // Even with the right content: its owner could change it between the check and the loading.
      renameSync(join(cache, name), join(cache, 'aside'))
      writeFileSync(join(cache, name), good)
      chownSync(join(cache, name), OTHER_UID, OTHER_UID)
      assert.equal((await create(t, { TRANCHE_CACHE: cache })).code, 0)
      const { uid: owner, mode } = statSync(join(cache, name))
      assert.deepEqual([owner, mode & 0o777], [uid, 0o600])
    })
  }
})
