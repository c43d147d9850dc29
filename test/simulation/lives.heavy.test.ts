// A few lives of the simulation in every test run: some that are always the same, a fresh one, and one with kills.

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { liveWithCrashes } from './crash/crashing-life.ts'
import { live } from './life.ts'
import { SHORT_CRASHING_LIFE, SHORT_LIVES } from './options.ts'

for (const seed of [...SHORT_LIVES.map(({ seed }) => seed), randomInt(2 ** 32)]) {
  test(`the service and the model agree through a whole life: SEED=${seed} npm run simulate`, async () => {
    const lived = await live(seed, { steps: null })
    // A fresh life may be short.
    const enough = SHORT_LIVES.some((life) => life.seed === seed) ? 50 : 0
    assert.ok(lived.answers > enough, `only ${lived.answers} answers were compared`)
  })
}

// A life of the simulation whose process is killed again and again.

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
