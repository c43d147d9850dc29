// Programs of others that some tests hold ours against, and that a machine need not have.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import type { TestContext } from 'node:test'

export const TOOLS = [
  'caddy',
  'cc',
  'chromium',
  'cron',
  'docker-compose',
  'fish',
  'groff',
  'mandoc',
  'nginx',
  'promtool',
  'rsyslogd',
  'systemd-analyze',
  'zsh',
] as const
type Tool = (typeof TOOLS)[number]

export const isMissing = (tool: Tool): boolean => spawnSync(tool, ['--version']).error !== undefined

/** Whether the test can go on. Where CI is set the tool must be there; elsewhere the run says what it lacks. */
export function hasTool(t: TestContext, tool: Tool): boolean {
  if (!isMissing(tool)) return true
  assert.ok(!process.env.CI, `${tool} is not installed, and CI must have it`)
  t.diagnostic(`NOT TESTED: ${tool} is not installed`)
  return false
}
