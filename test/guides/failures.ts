// What the tests of every failure share: the table of docs/monitoring.md, the alerts that metrics set off, and commands
// pasted into a shell.

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

/** A row of the table. Words in capitals stand for what differs. */
export type Failure = { what: string; code: string; metric: string; alert: string; command: string }

const [, TABLE = ''] = /<!-- failures -->\n([\s\S]*?)<!-- end -->/.exec(PAGE) ?? []
export const FAILURES: Failure[] = TABLE.split('\n')
  .filter((line) => /^\| (?!what fails)[^-]/.test(line))
  .map((line) => {
    const cells = line.split('|').map((cell) => cell.trim())
    const [what = '', ...codes] = cells.slice(1, -1)
    const [code = '', metric = '', alert = '', command = ''] = codes.map((cell) => cell.replaceAll('`', ''))
    return { what, code, metric, alert, command }
  })

export function failureNamed(what: string): Failure {
  const found = FAILURES.find((one) => one.what === what)
  assert.ok(found, `the table has a row for ${what}`)
  return found
}

/** The values of a metric in an answer of /metrics; `{label="value"}` after its name chooses among its series. */
export function valuesOf(text: string, metric: string): number[] {
  const [name = '', label = ''] = metric.replace('}', '').split('{')
  return text
    .split('\n')
    .filter((line) => new RegExp(`^${name}[ {]`).test(line) && line.includes(label))
    .map((line) => Number(line.split(' ').at(-1)))
}

/** Which alerts promtool finds firing when the metrics have stayed as they are for an hour. */
export function firing(t: TestContext, text: string, alerts: readonly string[] = ALERTS): string[] {
  const series = text.split('\n').flatMap((line) => {
    const [, name, value] = /^(tranche_\S+(?:\{.*\})?) ([\d.e+-]+)$/.exec(line) ?? []
    return name === undefined ? [] : [{ series: name, values: `${value}+0x60` }]
  })
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'tranche.rules.yml'), RULES)
  return alerts.filter((alertname) => {
    const silent = { eval_time: '1h', alertname, exp_alerts: [] }
    const suite = {
      rule_files: ['tranche.rules.yml'],
      evaluation_interval: '1m',
      tests: [{ interval: '1m', input_series: series, alert_rule_test: [silent] }],
    }
    // JSON is YAML.
    writeFileSync(join(folder, 'test.yml'), JSON.stringify(suite))
    const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'test.yml'], {
      cwd: folder,
      encoding: 'utf8',
    })
    assert.ok(status === 0 || /got:/.test(stdout + stderr), stdout + stderr)
    return status !== 0
  })
}

/** Throws unless the rule of the alert asks about the metric. */
export function assertRule({ what, metric, alert }: Failure): void {
  const [, expression = ''] = new RegExp(`alert: ${alert}\n +expr: (.*)`).exec(RULES) ?? []
  assert.ok(expression.includes(metric), `${what}: ${alert} asks about ${metric}`)
}

/** Whether a command that is printed is that of the table, whatever database it names. */
export function isPrinted(printed: string, { command }: Failure): boolean {
  const words = command.split(' ').map((word) => (/^[A-Z]+$/.test(word) ? '\\S+' : word.replace('.', '\\.')))
  const pattern = words.join(' ').replace(/^tranche/, 'tranche(?: --db \\S+)?')
  return new RegExp(`^${pattern}$`).test(printed.replaceAll("'", ''))
}
