// A few lives of the simulation in every run of the tests: some that are always the same, one that never is.

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { live } from './life.ts'
import { SHORT_LIVES } from './options.ts'

for (const seed of [...SHORT_LIVES.map(({ seed }) => seed), randomInt(2 ** 32)]) {
  test(`the service and the model agree through a whole life: SEED=${seed} npm run simulate`, async () => {
    const lived = await live(seed, { steps: null })
    // A fresh one may be short.
    const enough = SHORT_LIVES.some((life) => life.seed === seed) ? 50 : 0
    assert.ok(lived.answers > enough, `only ${lived.answers} answers were compared`)
  })
}
