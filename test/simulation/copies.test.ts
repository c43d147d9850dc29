// Flipping bits of copies, thousands of times in one process, leaves nothing of them behind.

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { machineAt } from '../../src/machine.ts'
import { openShell, succeed, T0 } from '../support/service.ts'
import { unseenFlip } from './system/copies.ts'

test('a flipped copy leaves no folder and no listener', async (t) => {
  const shell = openShell(t)
  await succeed(shell, 'partner', 'create', 'acme', '--name', 'Acme')
  const { machine } = machineAt(T0)
  const left = () => [
    process.listenerCount('exit'),
    readdirSync(tmpdir()).filter((name) => name.startsWith('tranche-flipped-')),
  ]
  const before = left()
  for (let flips = 0; flips < 3; flips += 1)
    assert.equal(await unseenFlip({ address: shell.file, machine }, [flips / 3]), null)
  assert.deepEqual(left(), before)
})
