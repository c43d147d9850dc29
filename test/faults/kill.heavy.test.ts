// Some rounds of what `npm run faults` does a thousand times: kill -9, and nothing that was answered is gone.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { machine } from '../../src/machine.ts'
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
