// What a run leaves behind, as JSON: all that was measured, and on what.

import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import SQLite from 'better-sqlite3'
import Table from 'cli-table3'
import { formatInstant } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import type { Options } from './bench.ts'
import {
  type Failure,
  FIGURES,
  type Figure,
  hasFailed,
  type Measured,
  type Result,
  type Spread,
} from './row.ts'

const ROOT = join(import.meta.dirname, '../..')
const GIB = 2 ** 30

export type Report = {
  at: string
  /** Of the commit that was measured, with `-dirty` when the tree had changes beside it. */
  commit: string
  quick: boolean
  machine: {
    cores: number
    processor: string
    memoryGib: number
    node: string
    sqlite: string
    /** The version of the server that was measured; left out for a file. */
    postgres?: string
    system: string
  }
  rows: (Result | Failure)[]
}

/** What a report says of a run before there is anything measured: later the tree may be another one. */
export async function reportHead({
  store,
  quick,
}: Pick<Options, 'store' | 'quick'>): Promise<Omit<Report, 'rows'>> {
  const postgres =
    store === 'file' ? {} : { postgres: await (await import('./postgres.ts')).versionOfServer() }
  return {
    at: formatInstant(machine.clock()),
    commit: await commit(),
    quick,
    machine: { ...thisMachine(), ...postgres },
  }
}

export const readReport = (file: string): Report => JSON.parse(readFileSync(file, 'utf8')) as Report

function thisMachine(): Report['machine'] {
  const db = new SQLite(':memory:')
  const sqlite = db.prepare<[], string>('select sqlite_version()').pluck().get() ?? ''
  db.close()
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model ?? '',
    memoryGib: Math.round(totalmem() / GIB),
    node: process.versions.node,
    sqlite,
    system: `${process.platform} ${process.arch}`,
  }
}

/** The sources may come without git. What starts it is loaded here: tests that only read a report start nothing. */
async function commit(): Promise<string> {
  const { execFileSync } = await import('node:child_process')
  try {
    return execFileSync('git', ['describe', '--always', '--dirty', '--exclude', '*'], {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return ''
  }
}

// Figures, ratios and goals in words, for the terminal and for the page.

/** Above this no decimals are written. */
const WHOLE_FROM = 100

/** A count as a reader wants it: thousands apart. */
export const counted = (value: number): string => value.toLocaleString('en-US')

/** A number as a reader wants it: thousands apart, and decimals only where they tell something. */
function number(value: number, places: number): string {
  if (places > 0 && value > 0 && value < 1) return value.toPrecision(2)
  const digits = Math.abs(value) >= WHOLE_FROM ? 0 : places
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

const withUnit = (text: string, unit: string): string =>
  unit.startsWith('/') ? text + unit : `${text} ${unit}`

/** The median of a figure, with its unit. */
export function figureInWords(figure: Figure, { median }: Pick<Spread, 'median'>): string {
  const { unit, places } = FIGURES[figure]
  return withUnit(number(median, places), unit)
}

/** Of several rounds, from the least to the most. */
function fromTo({ least, most }: Spread, places: number): string {
  return least === most ? '' : ` (${number(least, places)} to ${number(most, places)})`
}

const withSpread = (spread: Spread, places: number): string =>
  number(spread.median, places) + fromTo(spread, places)

/** The figures that any contestant of a row has, the one that the row is about first. */
export function figuresIn({ main, contestants }: Pick<Result, 'main' | 'contestants'>): Figure[] {
  const has = (figure: Figure): boolean => contestants.some(({ figures }) => isTold(figure, figures[figure]))
  const others = (Object.keys(FIGURES) as Figure[]).filter((figure) => figure !== main && has(figure))
  return [main, ...others]
}

/** That there were no errors goes without saying. */
const isTold = (figure: Figure, spread: Spread | undefined): boolean =>
  spread !== undefined && !(figure === 'errors' && spread.median === 0)

/** A figure of a contestant without its unit; empty when it has none. */
export function figureOf({ figures }: Measured, figure: Figure, isSpread: boolean): string {
  const spread = figures[figure]
  if (!spread) return ''
  const { places } = FIGURES[figure]
  return isSpread ? withSpread(spread, places) : number(spread.median, places)
}

/** The figure that a row is about. */
function mainOf({ main }: Pick<Result, 'main'>, { figures }: Measured): string {
  const spread = figures[main]
  return spread ? figureInWords(main, spread) + fromTo(spread, FIGURES[main].places) : ''
}

/** What else was measured of a contestant. */
function besideOf({ main }: Pick<Result, 'main'>, { figures }: Measured): string[] {
  return (Object.entries(figures) as [Figure, Spread][])
    .filter(([figure, spread]) => figure !== main && isTold(figure, spread))
    .map(([figure, spread]) => figureInWords(figure, spread))
}

const RATIO_PLACES = 2

export function ratiosOf({ ratios }: Result): string[] {
  return Object.entries(ratios).map(
    ([name, { spread }]) => `${name}: ${spread ? withSpread(spread, RATIO_PLACES) : 'not measured'}`,
  )
}

const MET = new Map([
  [true, 'met'],
  [false, 'MISSED'],
  [null, 'not measured'],
])

type GoalInWords = { words: string; value: string; verdict: string; isErrors: boolean }

/** Each goal in words, what was measured of it, and whether it is met. */
export function goalsOf({ goals }: Result): GoalInWords[] {
  return goals.map(({ words, unit, value, isMet }) => ({
    words,
    value:
      value === null
        ? ''
        : unit === null
          ? number(value, RATIO_PLACES)
          : figureInWords(unit, { median: value }),
    verdict: MET.get(isMet) ?? '',
    isErrors: unit === 'errors',
  }))
}

// A report as a table for a terminal.

const WIDTHS = [30, 30, 32, 30, 42]

/** One row for each contestant; ratios and goals are beside the first. */
export function tableOf(rows: Report['rows']): string {
  const table = new Table({
    head: ['what', 'who', 'median (least to most)', 'beside it', 'ratios and goals'],
    colWidths: WIDTHS,
    wordWrap: true,
    style: { head: [], border: [], compact: false },
  })
  for (const row of rows) table.push(...(hasFailed(row) ? failed(row) : measured(row)))
  return table.toString()
}

function measured(row: Result): Table.HorizontalTableRow[] {
  const { name, what, on, contestants, notes } = row
  const span = contestants.length
  const first = { rowSpan: span, content: [`${name}:`, what, `(${on})`].join('\n') }
  const last = { rowSpan: span, content: [...ratiosOf(row), ...goalsInWords(row), ...notes].join('\n') }
  return contestants.map((contestant, i) => {
    const own = [contestant.name, mainOf(row, contestant), besideOf(row, contestant).join('\n')]
    return i === 0 ? [first, ...own, last] : own
  })
}

const goalsInWords = (row: Result): string[] =>
  goalsOf(row).map(({ words, verdict }) => `${words}: ${verdict}`)

const failed = ({ name, what, failed }: Failure): Table.HorizontalTableRow[] => [
  [`${name}:\n${what}`, { colSpan: 4, content: `NOT MEASURED: ${failed}` }],
]
