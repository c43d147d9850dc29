// docs/monitoring.md against the program: its table has every metric, and its rules use existing ones.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FINDINGS } from '../../src/core/findings.ts'
import { DAY_MS } from '../../src/core/time.ts'
import { createMetrics } from '../../src/http/ops/metrics.ts'
import { type Monitored, startMonitored } from '../http/monitored.ts'
import { sendFirst } from '../http/steps.ts'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { startService } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { ALERTS, PAGE, RULES as rules, SCRAPE as scrape } from './failures.ts'

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

/** The alerts of the rules when the metrics of a service are constant for an hour. */
async function assertAlerts(
  t: TestContext,
  service: Monitored,
  fired: Record<string, string[]>,
): Promise<void> {
  const text = await (await fetch(`${service.opsUrl}/metrics`)).text()
  const series = text.split('\n').flatMap((line) => {
    const [, name, value] = /^(tranche_\S+(?:\{.*\})?) ([\d.e+-]+)$/.exec(line) ?? []
    return name === undefined ? [] : [{ series: name, values: `${value}+0x60` }]
  })
  assert.ok(series.length > 30)
  const tests = ALERTS.map((alertname) => ({
    eval_time: '1h',
    alertname,
    exp_alerts: (fired[alertname] ?? []).map((labels) => ({ exp_labels: JSON.parse(labels) })),
  }))
  const folder = temporaryFolder(t)
  // Only the labels of each alert are compared: its text is in the page.
  writeFileSync(join(folder, 'tranche.rules.yml'), rules.replace(/ +annotations:\n.*summary:.*\n/g, ''))
  const up = { series: 'up{job="tranche",instance="a"}', values: '1+0x60' }
  const suite = {
    rule_files: ['tranche.rules.yml'],
    evaluation_interval: '1m',
    tests: [{ interval: '1m', input_series: [up, ...series], alert_rule_test: tests }],
  }
  // JSON is YAML.
  writeFileSync(join(folder, 'test.yml'), JSON.stringify(suite))
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'test.yml'], { cwd: folder })
  assert.equal(status, 0, `${stdout}${stderr}`)
}

test('a fresh install pages nobody, not even with a partner and without a feed', async (t) => {
  if (!hasTool(t, 'promtool')) return
  const service = await startMonitored(t)
  await assertAlerts(t, service, {})
  await sendFirst(service, ['p1'])
  service.advance(7 * DAY_MS)
  await assertAlerts(t, service, {})
})

test('promtool takes the rules and the scrape configuration', (t) => {
  if (!hasTool(t, 'promtool')) return
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'tranche.rules.yml'), rules)
  writeFileSync(join(folder, 'prometheus.yml'), scrape.replace(/^ +authorization:\n.*\n/m, ''))
  execFileSync('promtool', ['check', 'rules', 'tranche.rules.yml'], { cwd: folder, stdio: 'pipe' })
  execFileSync('promtool', ['check', 'config', 'prometheus.yml'], { cwd: folder, stdio: 'pipe' })
})
