// The executable under test: built when the first test asks for it, and anew when anything it is made of has changed.

import { execFileSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { acquireLock } from '../../src/store/sqlite/file/locks.ts'

const ROOT = join(import.meta.dirname, '../..')
const DIST = join(ROOT, 'dist')

export const EXECUTABLE = join(DIST, process.platform === 'win32' ? 'tranche.exe' : 'tranche')
await ensureBuilt()

/** Builds it if need be; of the test processes that ask at the same time, one does. */
async function ensureBuilt(): Promise<void> {
  mkdirSync(DIST, { recursive: true })
  let release = acquireLock(join(DIST, '.building'))
  for (; release === null; release = acquireLock(join(DIST, '.building'))) await wait(50)
  try {
    if (isStale()) execFileSync(process.execPath, [join(ROOT, 'bin/build.ts')], { stdio: 'pipe' })
  } finally {
    release()
  }
}

/** Whether the executable is missing, or older than anything it is made of. */
function isStale(): boolean {
  if (!existsSync(EXECUTABLE)) return true
  const made = statSync(EXECUTABLE).mtimeMs
  const sources = [
    'src/**/*.ts',
    'sql/**/*.sql',
    'docs/**/*.md',
    'deploy/README.md',
    '*.md',
    'deploy/tranche*.{cron,env,service,timer}',
    'bin/*.ts',
    'package.json',
    'package-lock.json',
    'tsconfig.json',
  ]
  return globSync(sources, { cwd: ROOT }).some((file) => statSync(join(ROOT, file)).mtimeMs > made)
}
