// A run of the bench: what it is asked for, its rows one after the other, each contestant in turns, and what is on
// record.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InvalidArgumentError, Option } from 'commander'
import { z } from 'zod'
import { runner, wholeFrom } from '../support/runner.ts'
import type { Backend, StoreName } from './backend.ts'
import { counted, type Report, reportHead, tableOf } from './report.ts'
import {
  type Contestant,
  type Failure,
  FIGURES,
  type Figure,
  type Figures,
  type Goal,
  hasFailed,
  type Measured,
  type Ratio,
  type Result,
  type Row,
  type Scale,
  type Seen,
  spreadOf,
} from './row.ts'

// What `npm run bench` is asked for.

export type Options = {
  /** What keeps the databases. */
  store: StoreName
  quick: boolean
  /** Null for all of them. */
  only: string[] | null
  rounds: number
  /** Where everything goes that was measured. */
  json: string | null
  /** The ratios that this run is held against; null for none. */
  check: string | null
  /** Where its ratios are recorded, for later runs to be held against. */
  record: string | null
}

const ROUNDS = { quick: 3, full: 5 }

/** Throws a CommanderError that says what is wrong. `names` are those of the rows that there are on each store. */
export function optionsOf(
  args: readonly string[],
  names: Readonly<Record<StoreName, readonly string[]>>,
): Options {
  const command = runner('bench', 'Measures what the executable does beside the least that it could cost.')
    .option('--quick', 'less of everything: under two minutes on a quiet machine', false)
    .addOption(
      new Option('--store <store>', "measure on a file, or on a server of Debian's packages")
        .choices(Object.keys(names))
        .default('file'),
    )
    .addOption(new Option('--only <row...>', 'these rows alone').choices(allOf(names)))
    .option(
      '--rounds <n>',
      `turns of each (default: ${ROUNDS.full}, ${ROUNDS.quick} with --quick)`,
      wholeFrom(1),
    )
    .option('--json <file>', 'write all that was measured, and on what machine', notEmpty)
    .option('--check <file>', 'fail when a ratio is twice as bad as it was recorded', notEmpty)
    .option('--record <file>', 'record the ratios of this run, the rows left out as they were', notEmpty)
  const asked = command.parse(args, { from: 'user' }).opts()
  const store: StoreName = asked.store
  const missing = (asked.only as string[] | undefined)?.find((name) => !names[store].includes(name))
  if (missing !== undefined)
    command.error(`error: there is no row '${missing}' on ${store}: its rows are ${names[store].join(', ')}`)
  return {
    store,
    quick: asked.quick,
    only: asked.only ?? null,
    rounds: asked.rounds ?? ROUNDS[asked.quick ? 'quick' : 'full'],
    json: asked.json ?? null,
    check: asked.check ?? null,
    record: asked.record ?? null,
  }
}

const allOf = (names: Readonly<Record<StoreName, readonly string[]>>): string[] => [
  ...new Set(Object.values(names).flat()),
]

function notEmpty(text: string): string {
  if (text !== '') return text
  throw new InvalidArgumentError('It is the name of a file.')
}

// A run of the bench: measures rows one after the other, prints a table, and holds it against what is on record.

/** With --check a row that seems worse is measured again: what is slow every time is slow. */
const MEASUREMENTS_MAX = 3

type Run = {
  /** What the databases are on, and the rows that there are on it. */
  on: Backend
  rows: readonly Row[]
  /** Told what the run is at, and in the end what is wrong. */
  note: (text: string) => void
  print: (table: string) => void
}

/** Answers the exit code: 1 when a row could not be measured, or when --check finds a ratio far worse than it was. */
export async function bench(options: Options, { on, rows, note, print }: Run): Promise<number> {
  const { quick, only, rounds, json, check, record } = options
  // Read before anything takes its minutes.
  const limits = check === null ? null : readLimits(check)
  const scale: Scale = { on, quick, rounds, pick: (sizes) => (quick ? sizes.quick : sizes.full) }
  const head = await reportHead(options)
  const asked = rows.filter(({ name, fullOnly }) => only?.includes(name) ?? !(quick && fullOnly))
  const measured: Report['rows'] = []
  for (const [i, row] of asked.entries()) {
    note(`${i + 1} of ${asked.length}, ${row.name}: ${row.what}`)
    let outcome = await measureRow(row, scale)
    for (let n = 1; n < MEASUREMENTS_MAX && limits && broken([outcome], limits).length > 0; n++) {
      note('worse than on record: once more')
      outcome = await measureRow(row, scale)
    }
    measured.push(outcome)
  }
  if (json !== null) writeFileSync(json, `${JSON.stringify({ ...head, rows: measured }, null, 1)}\n`)
  if (record !== null) writeLimits(record, recorded(measured, existsSync(record) ? readLimits(record) : {}))
  print(tableOf(measured))
  const faults = [
    ...measured.filter(hasFailed).map(({ name, failed }) => `${name} could not be measured: ${failed}`),
    ...(limits === null ? [] : broken(measured, limits)),
  ]
  for (const fault of faults) note(fault)
  return faults.length === 0 ? 0 : 1
}

// Measures a row: its contestants in turns, round by round, so that a busy moment of the machine is everybody's.

/** What each contestant gave in one round. */
type Round = Map<string, Figures>

/** Never throws: a row that cannot be measured says why. */
export async function measureRow(row: Row, scale: Scale): Promise<Result | Failure> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-bench-'))
  const endings: (() => unknown)[] = []
  /** Of a run that is broken off: nothing can be waited for, and gigabytes must not stay behind. */
  const leave = (): void => {
    for (const end of endings.reverse()) end()
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', leave)
  try {
    const begun = performance.now()
    const stage = { folder, after: (end: () => unknown) => void endings.push(end) }
    const count = Math.min(scale.rounds, row.roundsMax ?? scale.rounds)
    const { on, contestants, notes = [] } = await row.prepare(stage, { ...scale, rounds: count })
    const rounds = await takeTurns(contestants, count)
    const seconds = Math.round((performance.now() - begun) / 100) / 10
    return { ...summed(row, contestants, rounds), on, rounds: count, seconds, notes }
  } catch (error) {
    return { name: row.name, what: row.what, failed: error instanceof Error ? error.message : String(error) }
  } finally {
    process.off('exit', leave)
    for (const end of endings.reverse()) await end()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function takeTurns(contestants: readonly Contestant[], count: number): Promise<Round[]> {
  const rounds: Round[] = []
  for (let n = 0; n < count; n++) {
    const round: Round = new Map()
    for (const { name, take } of contestants) round.set(name, await take(n))
    rounds.push(round)
  }
  return rounds
}

type Summed = Pick<Result, 'name' | 'what' | 'main' | 'contestants' | 'ratios' | 'goals'>

/** The medians of the rounds. A ratio is taken within each round, where both sides met the same machine. */
function summed(row: Row, contestants: readonly Contestant[], rounds: readonly Round[]): Summed {
  const { name, what, main } = row
  const measured = contestants.map(({ name, role }) => ({ name, role, figures: figuresOf(name, rounds) }))
  const ratios = Object.fromEntries(row.ratios.map((ratio) => [ratio.name, ratioOf(ratio, rounds)]))
  const goals = row.goals.map((goal) => {
    const seen = 'ratio' in goal ? ratios[goal.ratio]?.spread : figureOf(measured, goal)
    const unit = 'ratio' in goal ? null : goal.figure
    return {
      words: inWords(goal),
      unit,
      value: seen?.median ?? null,
      isMet: seen ? isWithin(goal, seen.median) : null,
    }
  })
  return { name, what, main, contestants: measured, ratios, goals }
}

function figuresOf(name: string, rounds: readonly Round[]): Measured['figures'] {
  const figures: Measured['figures'] = {}
  for (const figure of Object.keys(FIGURES) as Figure[]) {
    const spread = spreadOf(rounds.map((round) => round.get(name)?.[figure] ?? Number.NaN))
    if (spread) figures[figure] = spread
  }
  return figures
}

function ratioOf({ better, isSteady, of }: Ratio, rounds: readonly Round[]) {
  const each = rounds.map((round) => {
    const seen: Seen = (contestant, figure) => round.get(contestant)?.[figure] ?? Number.NaN
    return of(seen)
  })
  return { better, isSteady: isSteady === true, spread: spreadOf(each) }
}

function figureOf(measured: readonly Measured[], { figure, of = 'ours' }: { figure: Figure; of?: string }) {
  return measured.find(({ name }) => name === of)?.figures[figure] ?? null
}

function isWithin(goal: Goal, value: number): boolean {
  return 'atLeast' in goal ? value >= goal.atLeast : value <= goal.atMost
}

function inWords(goal: Goal): string {
  const bound = 'atLeast' in goal ? `at least ${counted(goal.atLeast)}` : `at most ${counted(goal.atMost)}`
  if ('ratio' in goal) return `${goal.ratio} ${bound}`
  const { unit } = FIGURES[goal.figure]
  return `${goal.of === undefined ? '' : `${goal.of}: `}${bound}${unit.startsWith('/') ? '' : ' '}${unit}`
}

// The steady ratios on record, and what a run may make of them: a machine that is shared moves them by a part, a change
// for the worse by a multiple. Times are never held against anything.

/** How many times worse than on record a ratio may be. */
const MARGIN = 2

const limits = z.record(
  z.string(),
  z.record(z.string(), z.strictObject({ better: z.enum(['more', 'less']), ratio: z.number().positive() })),
)

/** By row and name of the ratio. */
export type Limits = z.infer<typeof limits>

/** Throws when the file is not ours. */
export const readLimits = (file: string): Limits => limits.parse(JSON.parse(readFileSync(file, 'utf8')))

/**
 * What is worse than it may be, a sentence each. A ratio on record that was not measured is worse too; a row that could
 * not be measured says so itself.
 */
export function broken(rows: Report['rows'], recorded: Limits): string[] {
  return rows.flatMap((row) => {
    if (hasFailed(row)) return []
    const own = Object.entries(recorded[row.name] ?? {})
    return own.flatMap(([name, { better, ratio }]) => {
      const spread = row.ratios[name]?.spread
      if (!spread) return [`${row.name}: ${name} is on record and was not measured`]
      const worse = better === 'more' ? ratio / spread.median : spread.median / ratio
      if (worse <= MARGIN) return []
      return [
        `${row.name}: ${name} is ${spread.median.toFixed(3)}, ${worse.toFixed(1)} times worse than the ${ratio} on record`,
      ]
    })
  })
}

/** What was recorded, with the ratios of these rows put in its place. */
export function recorded(rows: Report['rows'], before: Limits): Limits {
  const measured = rows.flatMap((row) => {
    if (hasFailed(row)) return []
    const own = Object.entries(row.ratios).flatMap(([name, { better, isSteady, spread }]) =>
      spread && isSteady ? [[name, { better, ratio: Number(spread.median.toPrecision(3)) }]] : [],
    )
    return own.length === 0 ? [] : [[row.name, Object.fromEntries(own)]]
  })
  return { ...before, ...Object.fromEntries(measured) }
}

export const writeLimits = (file: string, all: Limits): void =>
  writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`)
