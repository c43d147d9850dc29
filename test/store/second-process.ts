// Other processes on a database: the program's own commands, and one that follows the test's commands (child.ts).

import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { finish, type Program, type Started, start } from '../support/process.ts'

const CHILD: Program = [process.execPath, join(import.meta.dirname, 'child.ts')]

/** Runs a command line on a database, in a process of its own. */
export const tranche = (t: TestContext, file: string, ...argv: string[]) =>
  finish(t, ['--db', file, ...argv], { cwd: dirname(file) })

/** Starts a process that performs a verb of child.ts. */
export const act = (t: TestContext, verb: string, file: string, argument = ''): Started =>
  start(t, [verb, file, argument], { cwd: dirname(file), program: CHILD })
