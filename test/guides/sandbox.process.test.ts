// docs/sandbox.md, pasted into a shell as its reader would.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { machineAt } from '../../src/machine.ts'
import { temporaryFolder } from '../support/database.ts'
import { paste } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { runHere, T0 } from '../support/service.ts'
import { freePort } from '../support/within.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/sandbox.md'), 'utf8')

test('the guide leads from nothing to a month by copy and paste', async (t) => {
  const port = String(await freePort())
  const script = blocksOf(GUIDE, 'sh')
    .join('\n')
    // The guide stays on the default port; the test must not.
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${port}`)
  const env = {
    HOME: process.env.HOME,
    TMPDIR: temporaryFolder(t),
    TRANCHE_PORT: port,
  }
  const whole = `trap 'kill %1 2> /dev/null || true' EXIT\n${script}\nwait`
  const { code, out, err } = await paste(t, whole, { cwd: temporaryFolder(t), env, jobs: true })
  assert.equal(code, 0, `${out}\n${err}`)
  assert.match(out, /trigger +slot_start/)
  assert.match(out, /"ok":true,.*"partner_order_id":"order-1"\}\n/)
  assert.match(out, /executions_created +1\d\d\nwindows_rolled +30\n/)
  // What the guide says becomes of a tranche that failed.
  assert.match(
    out,
    /^plan-1 \S+ failed 20\.00 USD\nplan-1 \S+ filled 33\.33 of .*\nplan-1 \S+ filled 16\.67 of /m,
  )
  assert.match(
    out,
    / 60\.00 +0\.00 +60\.00 +0\.00 +0\.00 +0\.00 +ended\n.* 60\.00 +0\.00 +10\.00 +0\.00 +50\.00 +0\.00 +-\n\n/,
  )
  for (const outcome of ['filled', 'partial', 'failed'])
    assert.match(out, new RegExp(`^plan-1 exec_[0-9a-f]{32} ${outcome} `, 'm'))
  // The present month, whatever the day: all that was worked off just before, and order-1 if that is of the same month.
  const [worked = '', report = ''] = out.split(/^PARTNER .*\n/m)
  const trades = worked.match(/^plan-1 exec_\S+ (filled|partial) /gm)?.length ?? 0
  assert.ok(trades > 80, out)
  assert.match(report, new RegExp(`^acme test +(${trades}|${trades + 1}) .*not billed\\n`))
  // What the guide says status shows: nothing of the purchases, and two lines about the sandbox.
  assert.match(out, /^plans +0 active, 0 paused, 0 cancelled\n/m)
  assert.match(out, /^orders in 24 h +0 filled, 0 failed\n/m)
  assert.match(out, /^in test +1 plan active, \d+ executions? open, \d+ due: tranche status --env test\n/m)
  assert.match(out, /sandboxes +acme test is 31 d ahead/)
  assert.match(out, /^ok$/m)
  assert.match(out, /^plans +1\nwindows +32\n/m)
  assert.doesNotMatch(out, /Internal Server Error|"detail"/)
})

test('the guide names every option of partner-sim, and only those there are', async () => {
  const { out } = await runHere(['partner-sim', '--help'], { machine: machineAt(T0).machine })
  const named = (page: string) => new Set(page.match(/--[a-z][a-z-]+/g))
  const table = GUIDE.slice(GUIDE.indexOf('## The simulated partner'))
  assert.deepEqual([...named(table), '--help'].sort(), [...named(out), '--json'].sort())
})
