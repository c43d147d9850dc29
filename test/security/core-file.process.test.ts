// What a crash leaves on disk: a core file would hold the keys of recent calls, so none may be written.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { PROGRAM, type Program, startServe } from '../support/process.ts'
import { me, withKey } from '../support/service.ts'

const DEPLOY = join(import.meta.dirname, '../../deploy')
const PATTERN = '/proc/sys/kernel/core_pattern'
const cores = (folder: string): string[] => readdirSync(folder).filter((name) => name.startsWith('core'))

/** What the unit of serve says. */
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

test('where this system writes core files into the folder, the search for them finds one', (t) => {
  if (!existsSync(PATTERN) || !/^core/.test(readFileSync(PATTERN, 'utf8'))) {
    t.diagnostic('this system hands core files to another program, or puts them elsewhere')
    return
  }
  const cwd = temporaryFolder(t)
  const { signal } = spawnSync('/bin/sh', ['-c', 'ulimit -c unlimited && kill -ABRT $$'], { cwd })
  assert.equal(signal, 'SIGABRT')
  assert.equal(cores(cwd).length, 1)
})

test('the container lets no core file be written', () => {
  assert.match(readFileSync(join(DEPLOY, 'README.md'), 'utf8'), /^docker run [\s\S]*? --ulimit core=0\b/m)
})
