// A life of the simulation whose process is killed again and again.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { liveWithCrashes } from './crash/crashing-life.ts'
import { SHORT_CRASHING_LIFE } from './options.ts'

const { seed, steps } = SHORT_CRASHING_LIFE
const COMMAND = `SEED=${seed} npm run simulate -- --crashes --steps ${steps}`

test(`what was answered is there after every crash: ${COMMAND}`, async () => {
  const lived = await liveWithCrashes(seed, { steps })
  const { all, afterCommit, afterFiring } = lived.crashes
  assert.ok(all > 2, `only ${all} crashes`)
  assert.ok(afterCommit > 0, 'a crash after a commit')
  assert.ok(afterFiring > 0, 'a crash that left a tranche')
  assert.ok(lived.executions > 10, `only ${lived.executions} executions`)
})
