// Errors of a command whose system call fails: a full disk is told from a failed one, a failed read from damage, and a
// copy that has its name from a missing one.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { finish } from '../support/process.ts'
import { runHere } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { type Fault, failingCalls } from './failing.ts'

const ROOM = /make room/
/** Calls that fail under a backup, its message, and whether it advises to make room. */
const BACKUPS: [Fault, RegExp, advisesRoom: boolean][] = [
  [
    { call: 'fsync', name: '.partial-', error: 'EIO' },
    /could not be made \(disk I\/O error\): run it again/,
    false,
  ],
  [
    { call: 'write', name: '.partial-', error: 'ENOSPC' },
    /could not be made \(.* full\): make room in /,
    true,
  ],
  [{ call: 'read', name: '/tranche.db', error: 'EIO' }, /The disk of \S+\/tranche\.db has failed/, false],
]

test('a failed call of the system is told for what it is', async (t) => {
  if (!hasTool(t, 'cc')) return
  const cwd = temporaryFolder(t)
  const db = join(cwd, 'tranche.db')
  await runHere(['--db', db, 'partner', 'create', 'acme', '--name', 'Acme'])
  const calls = failingCalls(t)
  const failing = async (fault: Fault, ...args: string[]) => {
    calls.begin(fault)
    const ended = await finish(t, ['--db', db, ...args], { cwd, env: calls.env })
    assert.ok(calls.end(), JSON.stringify(fault))
    return ended
  }
  for (const [fault, says, advisesRoom] of BACKUPS) {
    const { code, err } = await failing(fault, 'backup', 'none.db')
    assert.equal(code, 1, err)
    assert.match(err, says)
    assert.equal(ROOM.test(err), advisesRoom, err)
    assert.equal(existsSync(join(cwd, 'none.db')), false)
  }
  const synced = await failing(
    { call: 'fsync', name: 'tranche.db', error: 'EIO' },
    'tick',
    '--price',
    '60000',
  )
  assert.match(synced.err, /has failed, so the work in progress is not recorded: see the log of the system/)
  assert.doesNotMatch(synced.err, ROOM)

  // A single failed read is not damage.
  for (const skip of [8, 20]) {
    const once = { call: 'read', error: 'EIO', skip, times: 1 } as const
    const copied = await failing({ ...once, name: '.partial-' }, 'backup', `copy-${skip}.db`)
    assert.deepEqual([copied.code, copied.err], [0, ''])
    const checked = await failing({ ...once, name: '/tranche.db' }, 'check')
    assert.deepEqual([checked.code, checked.out, checked.err], [0, 'ok\n', ''])
  }
})

test('a copy whose folder cannot be brought to disk has its name', async (t) => {
  if (!hasTool(t, 'cc')) return
  const cwd = temporaryFolder(t)
  await runHere(['--db', join(cwd, 'tranche.db'), 'partner', 'create', 'acme', '--name', 'Acme'])
  const calls = failingCalls(t)
  // SQLite and we sync the file in this folder too; others are not waited for.
  for (let skip = 0; skip < 12; skip++) {
    const copy = join(cwd, `copy-${skip}.db`)
    calls.begin({ call: 'fsync', name: basename(cwd), error: 'EIO', skip, times: 1 })
    const argv = ['--db', join(cwd, 'tranche.db'), 'backup', copy]
    const { code, err } = await finish(t, argv, { cwd, env: calls.env })
    calls.end()
    const isThere = /is complete, but a power cut may undo that/.test(err)
    assert.equal(existsSync(copy), code === 0 || isThere, err)
    if (isThere) return
  }
  assert.fail('the sync of the folder has not failed')
})
