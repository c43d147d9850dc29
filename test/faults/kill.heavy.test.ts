// kill -9 and failing system calls: no answered write is lost, and a command ends with one sentence or its work is
// done.

import assert from 'node:assert/strict'
import { basename, dirname } from 'node:path'
import { suite, test } from 'node:test'
import { machine } from '../../src/machine.ts'
import { temporaryFolder } from '../support/database.ts'
import { finish } from '../support/process.ts'
import { hasTool } from '../support/tools.ts'
import { assertClearEnd, assertMendsItself, COMMANDS, lay } from './commands.ts'
import { ALL, chanceOf, type Fault, failingCalls, sample } from './failing.ts'
import { killRounds, sumOf, VICTIMS } from './kill/rounds.ts'

test('whatever is killed, nothing that was answered is lost, and the next start needs no repair', async (t) => {
  const seed = Number(process.env.SEED ?? machine.clock() % 1_000_000)
  t.diagnostic(`SEED=${seed}`)
  const { tallies, answered } = await killRounds(VICTIMS.length, { seed })
  assert.equal(tallies.size, VICTIMS.length)
  const { killed, atWork } = sumOf(tallies.values())
  assert.ok(killed > 0 && atWork > 0, `${killed} killed, ${atWork} of them in the middle of a write`)
  assert.ok((answered.calls ?? 0) > 0 && (answered.plans ?? 0) > 0)
})

// System calls that fail under a command: it ends with one sentence and 1, or its work is done; afterwards the database
// is sound and the same command works. FAULTS_ALL=1 fails every single call in turn, which takes minutes.

const FAULTS: Pick<Fault, 'call' | 'error' | 'times'>[] = [
  { call: 'fsync', error: 'EIO', times: 1 },
  { call: 'write', error: 'EIO', times: 1 },
  { call: 'write', error: 'ENOSPC', times: 0 },
  { call: 'truncate', error: 'ENOSPC', times: 0 },
  { call: 'read', error: 'EIO', times: 1 },
]
const SKIP_MAX = 8

test('a disk that is full while a restore fetches its copy', async (t) => {
  if (!hasTool(t, 'cc')) return
  const restore = COMMANDS.find(({ name }) => name === 'restore') ?? assert.fail()
  const calls = failingCalls(t)
  const file = await lay(restore, temporaryFolder(t))
  calls.begin({ call: 'write', name: 'tranche.db.partial-', error: 'ENOSPC' })
  const argv = ['--db', file, ...restore.argv(file)]
  const ended = await finish(t, argv, { cwd: dirname(file), env: calls.env })
  assert.ok(calls.end())
  assert.equal(ended.code, 1)
  assert.match(ended.err, /the disk is full: make room \(ENOSPC\)/)
  assertClearEnd(ended, restore, file)
  await assertMendsItself(restore, file)
})

suite('a call of the system that fails', { concurrency: 2 }, () => {
  for (const command of COMMANDS) {
    test(`under ${command.name}`, async (t) => {
      if (!hasTool(t, 'cc')) return
      const calls = failingCalls(t)
      let failures = 0
      /** Runs it with one fault. Answers whether there was a call to fail. */
      const runWith = async (fault: (typeof FAULTS)[number], skip: number): Promise<boolean> => {
        const file = await lay(command, temporaryFolder(t))
        const cwd = dirname(file)
        const doing = `${command.name}, ${fault.call} ${fault.error} after ${skip}, times ${fault.times}`
        calls.begin({ ...fault, name: basename(cwd), skip })
        const ended = await finish(t, ['--db', file, ...command.argv(file)], { cwd, env: calls.env })
        const hasFailed = calls.end()
        try {
          assertClearEnd(ended, command, file)
          await assertMendsItself(command, file)
        } catch (error) {
          throw new Error(`${doing}: ${(error as Error).message}`, { cause: error })
        }
        if (hasFailed) failures += 1
        return hasFailed
      }
      const random = chanceOf(t)
      for (const fault of ALL ? FAULTS : sample(FAULTS, 1, random)) {
        if (ALL) for (let skip = 0; await runWith(fault, skip); skip++);
        else if (!(await runWith(fault, Math.floor(random() * SKIP_MAX)))) await runWith(fault, 0)
      }
      t.diagnostic(`${failures} runs with a failing call`)
      assert.ok(failures > 0)
    })
  }
})
