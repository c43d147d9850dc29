// What a start of the executable costs, as a multiple of the least that Node takes: of `node -e 0`. A pass from cron is
// a start a minute, and an operator's command is one as well.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { suite, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { EXECUTABLE } from '../support/process.ts'
import { measure } from '../support/within.ts'

const ROUNDS = 7
const LIMITS = { version: 3, 'idle tick': 4 }

suite('start-up', () => {
  test('version within 3 times node -e 0, an idle tick within 4', async (t) => {
    const cwd = temporaryFolder(t)
    const env = { TRANCHE_CACHE: cwd }
    const run = (file: string, argv: string[]): number => {
      const started = performance.now()
      const { status, stderr } = spawnSync(file, argv, { cwd, env })
      assert.equal(status, 0, String(stderr))
      return performance.now() - started
    }
    // The first start of all makes the database and unpacks the addon.
    run(EXECUTABLE, ['migrate'])
    const starts = {
      node: () => run(process.execPath, ['-e', '0']),
      version: () => run(EXECUTABLE, ['version']),
      'idle tick': () => run(EXECUTABLE, ['tick']),
    }
    const names = ['version', 'idle tick'] as const
    type Ratios = Record<(typeof names)[number], number>
    const slow = (ratios: Ratios) => names.filter((name) => ratios[name] > LIMITS[name])
    const series = async (): Promise<Ratios> => {
      const took = { node: [] as number[], version: [] as number[], 'idle tick': [] as number[] }
      // In turn, so that a busy moment of the machine is everybody's.
      for (let round = 0; round < ROUNDS; round++) {
        took.node.push(starts.node())
        for (const name of names) took[name].push(starts[name]())
      }
      const ratio = (name: (typeof names)[number]) => median(took[name]) / median(took.node)
      return { version: ratio('version'), 'idle tick': ratio('idle tick') }
    }
    const ratios = await measure(series, (taken) => slow(taken).length === 0)
    for (const name of names) t.diagnostic(`${name}: ${ratios[name].toFixed(2)} times node -e 0`)
    assert.deepEqual(slow(ratios), [], JSON.stringify(ratios))
  })
})

const median = (numbers: number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN
