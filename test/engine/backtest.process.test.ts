// `tranche backtest` in a process of its own.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { csv, walk } from '../price/histories.ts'
import { temporaryFolder } from '../support/database.ts'
import { finish } from '../support/process.ts'
import { runHere } from '../support/service.ts'

test('another process prints the same bytes', async (t) => {
  const folder = temporaryFolder(t)
  const file = join(folder, 'prices.csv')
  writeFileSync(file, csv(walk(40 * 24, { seed: 6, everyMs: 3_600_000 })))
  const argv = ['--json', 'backtest', file]
  assert.deepEqual(await finish(t, argv, { cwd: folder }), await runHere(argv))
})
