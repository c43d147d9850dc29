// The SQLite addon, code that is unpacked into a folder: what another user of the machine may try there.

import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
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
import { finish } from '../support/process.ts'
import { canBeOthers } from '../support/tools.ts'

const OTHER_UID = 65_534
const uid = process.getuid?.() ?? 0
const STICKY = 0o1777
const PLANTED = 'not the addon'

/** No cache and no home: the temporary folder is what is left. */
const homeless = (tmp: string) => ({ TRANCHE_CACHE: undefined, HOME: undefined, TMPDIR: tmp })

const create = (t: TestContext, env: Record<string, string | undefined>) =>
  finish(t, ['migrate', '--json'], { cwd: temporaryFolder(t), env })

/** The name the addon is kept under, which anybody can work out from the executable. */
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
      // Even with the right content: its owner could change it between the look and the loading.
      renameSync(join(cache, name), join(cache, 'aside'))
      writeFileSync(join(cache, name), good)
      chownSync(join(cache, name), OTHER_UID, OTHER_UID)
      assert.equal((await create(t, { TRANCHE_CACHE: cache })).code, 0)
      const { uid: owner, mode } = statSync(join(cache, name))
      assert.deepEqual([owner, mode & 0o777], [uid, 0o600])
    })
  }
})
