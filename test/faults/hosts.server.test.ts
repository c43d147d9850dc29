// Some rounds of what `npm run faults -- --store postgres` does a thousand times: each strike once, a failover among
// them, at a database that four services and four tickers share.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { machine } from '../../src/machine.ts'
import { hasTool } from '../support/tools.ts'
import { hostRounds, STRIKES } from './hosts/rounds.ts'

test('whichever host is struck, nothing that was answered is lost, and nothing is done twice', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const seed = Number(process.env.SEED ?? machine.clock() % 1_000_000)
  t.diagnostic(`SEED=${seed}`)
  const { tallies, answered } = await hostRounds(STRIKES.length, { seed })
  assert.deepEqual([...tallies.keys()].sort(), STRIKES.map(({ name }) => name).sort())
  const atWork = [...tallies.values()].reduce((sum, tally) => sum + tally.atWork, 0)
  assert.ok(atWork > 0, 'nothing was struck in the middle of its work')
  assert.ok((answered.confirmations ?? 0) > 0)
})
