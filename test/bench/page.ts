// What docs/performance.md says in numbers, written between marks of the page from the reports of two runs: on a file
// and on a server.

import { capacityOf, capacityOfServer } from './capacity.ts'
import type { Report } from './report.ts'
import { type Failure, FIGURES, hasFailed, type Result } from './row.ts'
import { figureOf, figuresIn, goalsOf, ratiosOf } from './words.ts'

/** What is between `<!-- bench: NAME -->` and `<!-- end -->`. */
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
    ...tableOf(['row', 'goal', 'measured', ''], rows.flatMap(goalsAt)),
    '',
    ...rows.flatMap((row) => [...(hasFailed(row) ? [failed(row)] : measured(row)), '']),
  ].join('\n')
}

function goalsAt(row: Result | Failure): string[][] {
  if (hasFailed(row)) return [[`\`${row.name}\``, '', '', 'not measured']]
  const goals = goalsOf(row).filter(({ isErrors, verdict }) => !(isErrors && verdict === 'met'))
  return goals.map(({ words, value, verdict }) => [`\`${row.name}\``, words, value, verdict])
}

/** A row by itself: what it is, a line for each contestant with what was measured of it, and the ratios. */
function measured(row: Result): string[] {
  const { name, what, on, rounds, contestants, main, notes } = row
  const figures = figuresIn(row)
  return [
    `**\`${name}\`**: ${what}, on ${on}; ${rounds === 1 ? 'one round' : `${rounds} rounds`}.`,
    '',
    ...tableOf(
      ['', ...figures.map((figure) => FIGURES[figure].unit)],
      contestants.map((contestant) => [
        contestant.name,
        ...figures.map((figure) => figureOf(contestant, figure, figure === main)),
      ]),
    ),
    '',
    ...[...ratiosOf(row), ...notes].map((line) => `- ${line}`),
  ]
}

const failed = ({ name, what, failed }: Failure): string =>
  `**\`${name}\`**: ${what}. Not measured: ${failed}`

function tableOf(head: readonly string[], lines: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...lines.map(line)]
}
