// docs/monitoring.md against the program: its table has every metric, its rules use metrics there are.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createMetrics } from '../../src/http/metrics.ts'
import { readExposition } from '../support/exposition.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { hasTool } from '../support/tools.ts'

const PAGE = readFileSync(join(import.meta.dirname, '../../docs/monitoring.md'), 'utf8')
const BLOCKS = [...PAGE.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text = '']) => text)
const scrape = BLOCKS.find((text) => text.includes('scrape_configs')) ?? ''
const rules = BLOCKS.find((text) => text.includes('groups:')) ?? ''

test('the table has every metric, with its type', async (t) => {
  const { store, now } = await startService(t)
  const { types } = readExposition(await createMetrics().read(store, now()))
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

test('promtool takes the rules and the scrape configuration', (t) => {
  if (!hasTool(t, 'promtool')) return
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'tranche.rules.yml'), rules)
  writeFileSync(join(folder, 'prometheus.yml'), scrape.replace(/^ +authorization:\n.*\n/m, ''))
  execFileSync('promtool', ['check', 'rules', 'tranche.rules.yml'], { cwd: folder, stdio: 'pipe' })
  execFileSync('promtool', ['check', 'config', 'prometheus.yml'], { cwd: folder, stdio: 'pipe' })
})
