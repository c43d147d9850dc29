// What docs/performance.md says in numbers, written between marks of the page from the report of a run.

import { capacityOf } from './capacity.ts'
import type { Report } from './report.ts'
import { type Failure, hasFailed, type Result } from './row.ts'
import { besideOf, goalsOf, mainOf, ratiosOf } from './words.ts'

/** What stands between `<!-- bench: NAME -->` and `<!-- end -->`. */
const PARTS: Record<string, (report: Report) => string> = { figures: figuresOf, capacity: sentencesOf }
const END = '<!-- end -->'

/** The page with what a report says, in its places. Throws when it has none for a part. */
export function withFigures(page: string, report: Report): string {
  return Object.entries(PARTS).reduce((text, [name, write]) => {
    const mark = `<!-- bench: ${name} -->`
    const begin = text.indexOf(mark)
    const end = text.indexOf(END, begin)
    if (begin < 0 || end < 0) throw new Error(`the page has no ${mark} before an ${END}`)
    return `${text.slice(0, begin)}${mark}\n\n${write(report)}\n${text.slice(end)}`
  }, page)
}

function sentencesOf(report: Report): string {
  return capacityOf(report)
    .map((sentence) => `- ${sentence}\n`)
    .join('')
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
