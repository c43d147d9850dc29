// The shell blocks of a page, run in bash as somebody would paste them.

import { spawn } from 'node:child_process'
import { dirname } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { EXECUTABLE } from './executable.ts'
import { CACHE } from './process.ts'

/**
 * Runs a script that stops at the first failure; with `jobs`, those in the background are numbered as at a prompt.
 * `tranche` is the executable, before anything of that name on PATH.
 */
export async function paste(
  t: Pick<TestContext, 'after'>,
  script: string,
  { cwd, env, jobs = false }: { cwd: string; env: NodeJS.ProcessEnv; jobs?: boolean },
): Promise<{ code: number | null; out: string; err: string }> {
  const path = `${dirname(EXECUTABLE)}:${env.PATH ?? process.env.PATH}`
  const bash = spawn('bash', ['-euo', 'pipefail', ...(jobs ? ['-m'] : [])], {
    cwd,
    env: { ...CACHE, ...env, PATH: path },
    stdio: 'pipe',
    // A session of its own: what it starts in the background takes no terminal from the tests.
    detached: true,
  })
  t.after(() => bash.exitCode ?? bash.kill('SIGKILL'))
  bash.stdin.end(script)
  const ended = new Promise<number | null>((resolve) => bash.once('close', resolve))
  const [out, err, code] = await Promise.all([text(bash.stdout), text(bash.stderr), ended])
  return { code, out, err }
}
