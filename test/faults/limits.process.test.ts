// Limits of the machine that every command can meet: files that may not grow, no descriptors left, a disk that takes no
// writes. Each ends with one sentence and 1, or its work is done; without the limit everything works again.
// FAULTS_ALL=1 takes every command, else each limit takes some.

import assert from 'node:assert/strict'
import { dirname } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { finish, PROGRAM, type Program } from '../support/process.ts'
import { ALL, chanceOf, sample } from './chance.ts'
import { assertClearEnd, assertMendsItself, COMMANDS, lay } from './commands.ts'
import { MOUNTING, mayMount } from './mounts.ts'

const SHELL: Program = ['/bin/sh', '-c']
const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(' ')

/** Runs every command behind a line of shell, or a few of them, and answers how many succeeded. */
async function underEach(
  t: TestContext,
  limit: (file: string) => string,
  { program = SHELL, some = 2 } = {},
): Promise<number> {
  const commands = ALL ? COMMANDS : sample(COMMANDS, some, chanceOf(t))
  let succeeded = 0
  for (const command of commands) {
    const file = await lay(command, temporaryFolder(t))
    const script = `${limit(file)}; exec ${quoted([...PROGRAM, '--db', file, ...command.argv(file)])}`
    const ended = await finish(t, [script], { cwd: dirname(file), program })
    assertClearEnd(ended, command, file)
    await assertMendsItself(command, file)
    if (ended.code === 0) succeeded += 1
  }
  return succeeded
}

suite('a limit of the machine', { concurrency: 2 }, () => {
  // In blocks of 512 bytes: nothing, the index of the log, a part of a copy.
  for (const blocks of [0, 70, 200]) {
    test(`files that may have ${blocks} blocks at most`, async (t) => {
      const succeeded = await underEach(t, () => `ulimit -f ${blocks}`)
      if (blocks === 0) assert.equal(succeeded, 0)
    })
  }

  // Node itself needs about twenty before it has looked at the command line.
  for (const descriptors of ALL ? [21, 22, 23, 24, 25, 26, 27, 28] : [22, 24, 25]) {
    test(`${descriptors} open files at most`, async (t) => {
      // Three numbers so close together are three tries at the same thing.
      await underEach(t, () => `ulimit -n ${descriptors}`, { some: 1 })
    })
  }

  test('a disk that takes no writes', async (t) => {
    if (!mayMount(t)) return
    const fixed = (file: string) =>
      `cd / && mount --bind ${dirname(file)} ${dirname(file)} && mount -o remount,ro,bind ${dirname(file)}`
    assert.equal(await underEach(t, fixed, { program: MOUNTING }), 0)
  })
})
