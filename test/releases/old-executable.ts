// The executable that an operator upgrades from: built from the commit before the work on 1.0.0 began, once for each
// checkout, and stored in dist.

import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { acquireLock } from '../../src/store/sqlite/file/locks.ts'
import { EXECUTABLE } from '../support/process.ts'

const COMMIT = 'a89b2ffddf88'
const ROOT = join(import.meta.dirname, '../..')
const DIST = dirname(EXECUTABLE)

/** Null where the history or the registry is out of reach: the run says so, and where CI is set that is a failure. */
export async function oldExecutable(t: TestContext): Promise<string | null> {
  const kept = join(DIST, `.old-${COMMIT}`)
  if (existsSync(kept)) return kept
  if (spawnSync('git', ['cat-file', '-e', `${COMMIT}^{commit}`], { cwd: ROOT }).status !== 0)
    return untested(t, `the history has no ${COMMIT}`)
  let release = acquireLock(join(DIST, '.building-old'))
  for (; release === null; release = acquireLock(join(DIST, '.building-old'))) await pause(200)
  try {
    if (!existsSync(kept)) await build(kept)
    return kept
  } catch (error) {
    return untested(t, `the program of ${COMMIT} cannot be built: ${error}`)
  } finally {
    release()
  }
}

function untested(t: TestContext, why: string): null {
  assert.ok(!process.env.CI, `CI must upgrade from the program before: ${why}`)
  t.diagnostic(`NOT TESTED: ${why}`)
  return null
}

/** Takes as long as an `npm ci` and a build; only the executable is stored. */
async function build(kept: string): Promise<void> {
  const tree = `${kept}.aside`
  rmSync(tree, { recursive: true, force: true })
  mkdirSync(tree)
  try {
    const archive = execFileSync('git', ['archive', COMMIT], { cwd: ROOT, maxBuffer: 2 ** 30 })
    execFileSync('tar', ['-x'], { cwd: tree, input: archive })
    const run = promisify(execFile)
    await run('npm', ['ci', '--prefer-offline', '--no-progress'], { cwd: tree })
    await run(process.execPath, ['bin/with-node.mjs', 'bin/build.ts'], { cwd: tree })
    renameSync(join(tree, 'dist/tranche'), kept)
  } finally {
    rmSync(tree, { recursive: true, force: true })
  }
}
