// Helpers for the tests of every failure: the failures, the alerts of docs/monitoring.md that their metrics set off,
// and commands pasted into a shell.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { temporaryFolder } from '../support/database.ts'

export const PAGE = readFileSync(join(import.meta.dirname, '../../docs/monitoring.md'), 'utf8')
const BLOCKS = [...PAGE.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text = '']) => text)
export const SCRAPE = BLOCKS.find((text) => text.includes('scrape_configs')) ?? ''
export const RULES = BLOCKS.find((text) => text.includes('groups:')) ?? ''

/** The names of the alerts. */
export const ALERTS = [...RULES.matchAll(/alert: (\w+)/g)].map(([, name = '']) => name)

/** A failure, its code in `status`, its alert, and the command to run. Words in capitals stand for what differs. */
export type Failure = { what: string; code: string; alert: string; command: string }

export const FAILURES: Failure[] = [
  ['no tick runs', 'ticks_stopped', 'TranchePage', 'tranche tick'],
  ['a partner is silent', 'partner_silent', 'TranchePage', 'tranche key list SLUG'],
  [
    'instructions wait',
    'executions_stuck',
    'TrancheTicket',
    'tranche docs levers#an-instruction-nobody-confirms',
  ],
  ['the disk is nearly full', 'disk_low', 'TranchePage', 'df -h FOLDER'],
  ['the file is renamed', 'database_not_found', 'TrancheDatabaseUnreadable', 'mv RENAMED FILE'],
  ['the file is damaged', 'check_found', 'TranchePage', 'tranche check'],
  ['the file belongs to another user', 'storage_failed', 'TranchePage', 'chown USER FILE'],
  ['the clock is a day ahead', 'clock_disputed', 'TranchePage', 'timedatectl status'],
  ['the clock is a day behind', 'clock_back', 'TranchePage', 'timedatectl status'],
  ['no check is made', 'check_old', 'TrancheTicket', 'tranche check'],
  ['the standby is away', 'standby_away', 'TranchePage', 'tranche docs postgres#when-the-standby-is-away'],
  ['`serve` has stopped', 'serve_stopped', 'TrancheDown', 'systemctl restart tranche.service'],
  ['a setting is wrong', 'serve_stopped', 'TrancheDown', 'systemctl restart tranche.service'],
].map(([what = '', code = '', alert = '', command = '']) => ({ what, code, alert, command }))

export function failureNamed(what: string): Failure {
  const found = FAILURES.find((one) => one.what === what)
  assert.ok(found, `there is a row for ${what}`)
  return found
}

/** The series that show a failure. A file that others own is refused by `status`, and found by the open `serve`. */
function seriesOf({ code }: Failure): RegExp {
  if (code === 'database_not_found') return /^tranche_database_up /
  const kind = code === 'storage_failed' ? 'file_closed' : code
  return new RegExp(`^tranche_(?:partner_finding|findings)\\{.*\\bkind="${kind}"`)
}

/** The values in an answer of /metrics of the series that show a failure. */
export function valuesOf(text: string, row: Failure): number[] {
  const lines = text.split('\n').filter((line) => seriesOf(row).test(line))
  return lines.map((line) => Number(line.split(' ').at(-1)))
}

/** The alerts that promtool finds firing when the series of a failure, or all, have been constant for an hour. */
export function firing(t: TestContext, text: string, row?: Failure): string[] {
  const series = text.split('\n').flatMap((line) => {
    const [, name, value] = /^(tranche_\S+(?:\{.*\})?) ([\d.e+-]+)$/.exec(line) ?? []
    return name === undefined || (row && !seriesOf(row).test(line))
      ? []
      : [{ series: name, values: `${value}+0x60` }]
  })
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'tranche.rules.yml'), RULES)
  const suite = {
    rule_files: ['tranche.rules.yml'],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: series,
        alert_rule_test: ALERTS.map((alertname) => ({ eval_time: '1h', alertname, exp_alerts: [] })),
      },
    ],
  }
  // JSON is YAML.
  writeFileSync(join(folder, 'test.yml'), JSON.stringify(suite))
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'test.yml'], {
    cwd: folder,
    encoding: 'utf8',
  })
  const fired = [...`${stdout}${stderr}`.matchAll(/alertname: (\w+), time/g)].map(([, name = '']) => name)
  assert.equal(status === 0, fired.length === 0, stdout + stderr)
  return fired
}

/** Whether a printed command is that of the failure, whatever database it names. */
export function isPrinted(printed: string, { command }: Failure): boolean {
  const words = command.split(' ').map((word) => (/^[A-Z]+$/.test(word) ? '\\S+' : word.replace('.', '\\.')))
  const pattern = words.join(' ').replace(/^tranche/, 'tranche(?: --db \\S+)?')
  return new RegExp(`^${pattern}$`).test(printed.replaceAll("'", ''))
}
