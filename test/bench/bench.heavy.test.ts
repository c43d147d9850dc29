// A short run of the bench: it measures the executable, records its ratios, and fails by a limit alone.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { CACHE } from '../support/process.ts'

const RUN = join(import.meta.dirname, 'run.ts')
const STEADY = 'CPU of an idle tick to node -e 0'

async function run(t: TestContext, ...argv: string[]) {
  const env = { ...process.env, ...CACHE }
  const child = spawn(process.execPath, [RUN, ...argv], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  const ended = once(child, 'close')
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { out, err, code }
}

test('a run records its ratios, passes when it is as good again, and fails when one is twice as bad', async (t) => {
  const file = join(temporaryFolder(t), 'limits.json')
  const row = ['--quick', '--only', 'start-up']
  const first = await run(t, ...row, '--record', file)
  assert.equal(first.code, 0, first.err)
  assert.match(first.out, /^start-up: the start of a process/)
  assert.match(first.out, /\n {2}node -e 0 +\d/)
  const recorded = JSON.parse(readFileSync(file, 'utf8'))
  assert.deepEqual(Object.keys(recorded), ['start-up'])
  const { [STEADY]: limit, ...others } = recorded['start-up']
  assert.deepEqual([limit.better, others], ['less', {}])

  const again = await run(t, ...row, '--check', file)
  assert.equal(again.code, 0, again.err)
  assert.ok(again.out.includes(`, at most ${limit.ratio * 2}\n`), again.out)

  // A single bad ratio may be the machine's doing, so the row is measured three times.
  writeFileSync(file, JSON.stringify({ 'start-up': { [STEADY]: { ...limit, ratio: limit.ratio / 10 } } }))
  const worse = await run(t, ...row, '--check', file)
  assert.equal(worse.code, 1, worse.err)
  assert.equal(worse.err.match(/once more$/gm)?.length, 2)
  assert.match(
    worse.err,
    /^start-up: CPU of an idle tick to node -e 0 is .* times worse than the .* on record$/m,
  )

  const mistaken = await run(t, '--store', 'postgres', '--only', 'year')
  assert.deepEqual([mistaken.code, mistaken.out], [2, ''])
})
