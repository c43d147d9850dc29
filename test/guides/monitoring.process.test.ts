// docs/monitoring.md against the program: its table has every metric, and its rules use existing ones.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FINDINGS } from '../../src/core/findings.ts'
import { DAY_MS } from '../../src/core/time.ts'
import { createMetrics } from '../../src/http/ops/metrics.ts'
import { startMonitored } from '../http/monitored.ts'
import { sendFirst } from '../http/steps.ts'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { startService } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { firing, PAGE, RULES as rules, SCRAPE as scrape } from './failures.ts'

const REFERENCE = readFileSync(join(import.meta.dirname, '../../docs/reference.md'), 'utf8')

test('the table has every metric, with its type', async (t) => {
  const { store } = await startService(t)
  const { types } = readExposition(await createMetrics().read(store))
  const own = [...types]
    .filter(([name]) => name.startsWith('tranche_'))
    .map(([name, type]) => `${name} ${type}`)
  const rows = [...PAGE.matchAll(/^\| `(tranche_\w+)` \| (\w+) \|/gm)].map(
    ([, name, type]) => `${name} ${type}`,
  )
  assert.deepEqual(rows.sort(), own.sort())
  for (const [name] of rules.matchAll(/tranche_\w+/g)) assert.ok(types.has(name), `${name} of a rule exists`)
  assert.ok(types.has('nodejs_eventloop_lag_p99_seconds'))
})

test('the reference has the severity of each finding', () => {
  const rows = [...REFERENCE.matchAll(/^\| `([a-z_]+)` \| (page|ticket|either) \|/gm)].map(
    ([, ...row]) => row,
  )
  const expected = Object.entries(FINDINGS).map(([kind, severities]) => [
    kind,
    severities.length === 1 ? severities[0] : 'either',
  ])
  assert.deepEqual(rows.sort(), expected.sort())
})

async function assertSilent(t: TestContext, { opsUrl }: { opsUrl: string }): Promise<void> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text()
  assert.match(text, /^tranche_scheduler_late /m)
  assert.deepEqual(firing(t, text), [])
}

test('a fresh install pages nobody, not even with a partner and without a feed', async (t) => {
  if (!hasTool(t, 'promtool')) return
  const service = await startMonitored(t)
  await assertSilent(t, service)
  await sendFirst(service, ['p1'])
  service.advance(7 * DAY_MS)
  await assertSilent(t, service)
})

test('promtool takes the rules and the scrape configuration', (t) => {
  if (!hasTool(t, 'promtool')) return
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'tranche.rules.yml'), rules)
  writeFileSync(join(folder, 'prometheus.yml'), scrape.replace(/^ +authorization:\n.*\n/m, ''))
  execFileSync('promtool', ['check', 'rules', 'tranche.rules.yml'], { cwd: folder, stdio: 'pipe' })
  execFileSync('promtool', ['check', 'config', 'prometheus.yml'], { cwd: folder, stdio: 'pipe' })
})
