// docs/monitoring.md against the program: its table has every metric, its rules use metrics there are.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FINDINGS, type FindingKind, OF_THE_CHECK } from '../../src/core/findings.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { createMetrics } from '../../src/http/ops/metrics.ts'
import { type Monitored, startMonitored } from '../http/monitored.ts'
import { confirmPath, link, plan, poll, sendFirst, succeed } from '../http/steps.ts'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { startService } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { ALERTS, PAGE, RULES as rules, SCRAPE as scrape } from './failures.ts'

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

test('the rules have the severity that the findings have, and that of the finding where there are two', () => {
  const blocks = [...rules.matchAll(/alert: (\w+)\n([\s\S]*?)(?=\n +- alert|$)/g)]
  const severityOf = (block: string) => /severity: (\w+)/.exec(block)?.[1] ?? null
  const seen = blocks.flatMap(([, alert = '', block = '']) => {
    const kind = { TrancheNoTick: 'ticks_stopped', TrancheFeedDown: 'feed_down' }[alert]
    const named = kind ?? /^ +expr: tranche_\w*findings?\{kind="(\w+)"\}/.exec(block)?.[1]
    return named === undefined ? [] : [[named, severityOf(block)]]
  })
  const shown = Object.entries(FINDINGS).filter(
    ([kind]) => !OF_THE_CHECK.includes(kind) && kind !== 'serve_stopped',
  )
  const expected = shown.map(([kind, severities]) => [kind, severities.length === 1 ? severities[0] : null])
  assert.deepEqual(seen.sort(), expected.sort())
})

/** What the rules make of the metrics of a service that stay as they are for an hour. */
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
  // Of each alert only the labels are compared: what is said is in the page.
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

test('each failure sets off its alarm, which names the partner', async (t) => {
  if (!hasTool(t, 'promtool')) return
  const service = await startMonitored(t)
  const acme = await service.issueKey('acme', 'live')
  const bolt = await service.issueKey('bolt', 'live')
  for (const key of [acme, bolt]) {
    await link(service, 'u1', { key })
    for (const id of ['p1', 'p2', 'p3']) await plan(service, 'u1', id, {}, { key })
  }
  await service.tick('60000')
  for (const { execution_id } of [...(await poll(service, { key: bolt })).values()].flat()) {
    const id = String(execution_id)
    const failed = { partner_order_id: id, status: 'failed' }
    await succeed(service, 'POST', confirmPath(id), failed, { key: bolt })
  }
  service.advance(MINUTE_MS)
  await service.store.beginPass(null, { name: 'median', failure: 'no source answered' })
  service.advance(3 * HOUR_MS)
  await poll(service, { key: bolt })
  const partner = (slug: string, kind: FindingKind) =>
    JSON.stringify({ partner: slug, kind, severity: FINDINGS[kind][0] })
  await assertAlerts(t, service, {
    TrancheFeedDown: ['{"severity":"ticket"}'],
    TrancheNoTick: ['{"severity":"page"}'],
    TranchePartnerSilent: [partner('acme', 'partner_silent')],
    TranchePartnerFailing: [partner('bolt', 'partner_failing')],
    TrancheDueBacklog: [partner('acme', 'executions_stuck')],
  })
})

test('promtool takes the rules and the scrape configuration', (t) => {
  if (!hasTool(t, 'promtool')) return
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'tranche.rules.yml'), rules)
  writeFileSync(join(folder, 'prometheus.yml'), scrape.replace(/^ +authorization:\n.*\n/m, ''))
  execFileSync('promtool', ['check', 'rules', 'tranche.rules.yml'], { cwd: folder, stdio: 'pipe' })
  execFileSync('promtool', ['check', 'config', 'prometheus.yml'], { cwd: folder, stdio: 'pipe' })
})
