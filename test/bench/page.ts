// The figures of docs/performance.md, written between two marks of the page from the report of a run.

import type { Report } from './report.ts'
import { type Failure, hasFailed, type Result } from './row.ts'
import { besideOf, goalsOf, mainOf, ratiosOf } from './words.ts'

const BEGIN = '<!-- written by npm run bench:page -->'
const END = '<!-- end -->'

/** The page with the figures of a report. Throws when it has no place for them. */
export function withFigures(page: string, report: Report): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error(`the page has no ${BEGIN} before an ${END}`)
  return `${page.slice(0, begin)}${BEGIN}\n\n${figuresOf(report)}\n${page.slice(end)}`
}

function figuresOf({ at, commit, quick, machine, rows }: Report): string {
  const { cores, processor, memoryGib, node, sqlite, system } = machine
  const run = quick ? '`npm run bench -- --quick`' : '`npm run bench`'
  return [
    `Measured ${at.slice(0, 10)} at commit \`${commit}\` with ${run}: ${cores} cores (${processor}), ${memoryGib} GiB,`,
    `${system}, Node ${node}, SQLite ${sqlite}.`,
    '',
    '| row | ours | floors and peers | ratios | goals |',
    '|---|---|---|---|---|',
    ...rows.map((row) => (hasFailed(row) ? failed(row) : measured(row))),
    '',
  ].join('\n')
}

const cell = (lines: readonly string[]): string =>
  lines.length === 0 ? '' : lines.map((text) => text.replaceAll('|', '\\|')).join('<br>')

function measured(row: Result): string {
  const who = (isOurs: boolean) =>
    row.contestants
      .filter(({ role }) => (role === 'ours') === isOurs)
      .map((contestant) => {
        const figures = [mainOf(row, contestant), ...besideOf(row, contestant)].filter((text) => text !== '')
        return `${contestant.name}: ${figures.join(', ')}`
      })
  const what = [`**${row.name}**`, row.what, `on ${row.on}`, ...row.notes]
  return `| ${[what, who(true), who(false), ratiosOf(row), goalsOf(row)].map(cell).join(' | ')} |`
}

const failed = ({ name, what, failed }: Failure): string =>
  `| ${cell([`**${name}**`, what])} | not measured: ${cell([failed])} | | | |`
