// What docs/performance.md says in numbers, written between marks of the page from the reports of two runs: on a file and
// on a server.

import { capacityOf, capacityOfServer } from './capacity.ts'
import type { Report } from './report.ts'
import { type Failure, hasFailed, type Result } from './row.ts'
import { besideOf, goalsOf, mainOf, ratiosOf } from './words.ts'

/** What stands between `<!-- bench: NAME -->` and `<!-- end -->`. */
const PARTS: Record<string, (reports: Reports) => string> = {
  figures: ({ file }) => figuresOf(file),
  capacity: ({ file }) => sentences(capacityOf(file)),
  'postgres figures': ({ postgres }) => figuresOf(postgres),
  'postgres capacity': ({ postgres }) => sentences(capacityOfServer(postgres)),
}
export type Reports = { file: Report; postgres: Report }
const END = '<!-- end -->'

/** The page with what the reports say, in its places. Throws when it has none for a part. */
export function withFigures(page: string, reports: Reports): string {
  return Object.entries(PARTS).reduce((text, [name, write]) => {
    const mark = `<!-- bench: ${name} -->`
    const begin = text.indexOf(mark)
    const end = text.indexOf(END, begin)
    if (begin < 0 || end < 0) throw new Error(`the page has no ${mark} before an ${END}`)
    return `${text.slice(0, begin)}${mark}\n\n${write(reports)}\n${text.slice(end)}`
  }, page)
}

const sentences = (all: readonly string[]): string => all.map((sentence) => `- ${sentence}\n`).join('')

function figuresOf({ at, commit, quick, machine, rows }: Report): string {
  const { cores, processor, memoryGib, node, sqlite, postgres, system } = machine
  const options = [...(postgres === undefined ? [] : ['--store postgres']), ...(quick ? ['--quick'] : [])]
  const run = `\`npm run bench${options.length > 0 ? ` -- ${options.join(' ')}` : ''}\``
  const server = postgres === undefined ? '' : `, PostgreSQL ${postgres}`
  return [
    `Measured ${at.slice(0, 10)} at commit \`${commit}\` with ${run}: ${cores} cores (${processor}), ${memoryGib} GiB,`,
    `${system}, Node ${node}, SQLite ${sqlite}${server}.`,
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
