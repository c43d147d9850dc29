// Lives on a PostgreSQL server: its answers equal SQLite's, and every answered write is stored after every crash.

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { ourServer } from '../support/postgres-server.ts'
import { liveWithCrashes } from './crash/crashing-life.ts'
import { live } from './life.ts'
import { SHORT_CRASHING_LIFE_ON_A_SERVER, SHORT_LIFE_ON_BOTH } from './options.ts'
import { onBoth } from './twins.ts'

const serverAddress = async (): Promise<string> => (await ourServer()).url('postgres')

for (const { seed, steps } of [SHORT_LIFE_ON_BOTH, { seed: randomInt(2 ** 32), steps: 6 }]) {
  const command = `SEED=${seed} npm run simulate -- --store both --steps ${steps}`
  test(`both stores give the same answers, reports and exports: ${command}`, async (_t) => {
    const lived = await live(seed, { steps, open: onBoth(await serverAddress()) })
    if (seed === SHORT_LIFE_ON_BOTH.seed)
      assert.ok(lived.answers > 50, `only ${lived.answers} answers were compared`)
  })
}

const { seed, steps } = SHORT_CRASHING_LIFE_ON_A_SERVER
const COMMAND = `SEED=${seed} npm run simulate -- --store postgres --crashes --steps ${steps}`

test(`what was answered is there after every crash, and connections that end are nobody's loss: ${COMMAND}`, async (_t) => {
  const { crashes } = await liveWithCrashes(seed, { steps, server: await serverAddress() })
  assert.ok(crashes.all > 0, 'no crash')
  assert.ok(crashes.severed > 0, 'no connection ended')
})
