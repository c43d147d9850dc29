// Programs of others that some tests use for comparison, and that a machine need not have.

import assert from 'node:assert/strict'
import { accessSync, constants, globSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { TestContext } from 'node:test'

export const TOOLS = [
  ...['caddy', 'cc', 'chromium', 'cron', 'debootstrap', 'docker-compose', 'fish', 'haproxy'],
  ...['hledger', 'ip', 'iptables', 'nginx', 'pgbouncer', 'podman', 'postgres', 'promtool'],
  ...['restic', 'rsyslogd', 'runc', 'sslscan', 'systemd-analyze', 'systemd-nspawn', 'zsh'],
] as const
type Tool = (typeof TOOLS)[number]

/** Tools that only tests on a PostgreSQL server need. */
export const SERVER_TOOLS: readonly Tool[] = ['ip', 'pgbouncer', 'postgres']

/** Where Debian puts the programs of PostgreSQL's server, none of them on PATH: the newest ones. */
const SERVERS = '/usr/lib/postgresql/*/bin'
const byVersion = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true })

/** The path of a program of PostgreSQL's server. */
export function serverProgram(
  name: 'createdb' | 'initdb' | 'postgres' | 'pg_basebackup' | 'pg_checksums' | 'pg_ctl' | 'pg_resetwal',
): string {
  const folder = globSync(SERVERS).sort(byVersion).at(-1)
  return folder === undefined ? name : join(folder, name)
}

/** Looked up where the system would look: starting docker-compose, say, takes a third of a second. */
export const isMissing = (tool: Tool): boolean =>
  tool === 'postgres' ? !canRun(serverProgram(tool)) : !isOnPath(tool)

const isOnPath = (name: string): boolean =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => canRun(join(folder, name)))

function canRun(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Whether the test can run. Where CI is set the tool must be installed; elsewhere the run says that it is missing. */
export function hasTool(t: TestContext, tool: Tool): boolean {
  if (!isMissing(tool)) return true
  assert.ok(!process.env.CI, `${tool} is not installed, and CI must have it`)
  t.diagnostic(`NOT TESTED: ${tool} is not installed`)
  return false
}

/** Whether tests can act as another user, as only root can. Where CI is set they must; elsewhere the run says so. */
export function canBeOthers(): boolean {
  const isRoot = process.getuid?.() === 0
  assert.ok(isRoot || !process.env.CI, 'CI must run as root: some tests act as another user')
  return isRoot
}
