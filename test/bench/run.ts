// `npm run bench`: its options, its rows one after the other, each contestant in turns, and the limits of the ratios.
// Reports progress on stderr, and prints the figures.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Option } from 'commander'
import { z } from 'zod'
import { optionsOrExit, runner } from '../support/runner.ts'
import { onFile, type StoreName } from './backend.ts'
import {
  FIGURES,
  type Figure,
  type Figures,
  inLines,
  type Result,
  type Row,
  type Scale,
  type Seen,
  spreadOf,
  type Take,
} from './row.ts'
import { CALLS } from './rows/calls.ts'
import { COMMANDS } from './rows/commands.ts'
import { PASSES } from './rows/passes.ts'

/** In the order of measurement and display. */
const ROWS: readonly Row[] = [...CALLS, ...PASSES, ...COMMANDS]

const rowsOn = (on: StoreName): Row[] => ROWS.filter(({ store = on }) => store === on)

// The options of `npm run bench`.

type Options = {
  store: StoreName
  quick: boolean
  only?: string[]
  /** The file of limits that this run is compared with. */
  check?: string
  /** The file to record the ratios in, as limits for later runs. */
  record?: string
}

const ROUNDS = { quick: 3, full: 5 }

/** Throws a CommanderError that names the mistake. */
function optionsOf(args: readonly string[]): Options {
  const command = runner('bench', 'Measures what the executable does beside the least that it could cost.')
    .option('--quick', 'less of everything: under two minutes on a quiet machine', false)
    .addOption(
      new Option('--store <store>', "measure on a file, or on a server of Debian's packages")
        .choices(['file', 'postgres'])
        .default('file'),
    )
    .addOption(
      new Option('--only <row...>', 'these rows alone').choices([...new Set(ROWS.map(({ name }) => name))]),
    )
    .option('--check <file>', 'fail when a ratio is twice as bad as it was recorded')
    .option('--record <file>', 'record the ratios of this run, the rows left out as they were')
  const options: Options = command.parse(args, { from: 'user' }).opts()
  const there = rowsOn(options.store).map(({ name }) => name)
  const missing = options.only?.find((name) => !there.includes(name))
  if (missing !== undefined) command.error(`error: '${missing}' is not measured on ${options.store}`)
  return options
}

// A run measures rows one after the other, and compares them with the recorded limits.

/** With --check a row that seems worse is measured again: only a row that is slow every time is slow. */
const MEASUREMENTS_MAX = 3

const note = (text: string): void => void process.stderr.write(`${text}\n`)

/** Answers the exit code: 1 when a row could not be measured, or when --check finds a ratio far worse than it was. */
async function bench({ store, quick, only, check, record }: Options): Promise<number> {
  // Read before the measurements, which take minutes.
  const limits = check === undefined ? {} : readLimits(check)
  const on = store === 'file' ? onFile : (await import('./postgres.ts')).onPostgres
  const size = quick ? 'quick' : 'full'
  const scale: Scale = { on, rounds: ROUNDS[size], pick: (sizes) => sizes[size] }
  const rows = rowsOn(store).filter(({ name }) => only?.includes(name) ?? true)
  const results: Result[] = []
  const faults: string[] = []
  for (const [i, row] of rows.entries()) {
    note(`${i + 1} of ${rows.length}, ${row.name}: ${row.what}`)
    try {
      let result = await measure(row, scale)
      for (let n = 1; n < MEASUREMENTS_MAX && broken(result, limits).length > 0; n++) {
        note('worse than on record: once more')
        result = await measure(row, scale)
      }
      results.push(result)
      process.stdout.write(`${inLines(result, (ratio) => limitInWords(limits[row.name]?.[ratio]))}\n`)
      faults.push(...broken(result, limits))
    } catch (error) {
      faults.push(`${row.name} could not be measured: ${error instanceof Error ? error.message : error}`)
    }
  }
  if (record !== undefined) writeLimits(record, results)
  for (const fault of faults) note(fault)
  return faults.length === 0 ? 0 : 1
}

// Measures a row: its contestants in turns, round by round, so that a busy moment of the machine affects all of them.

/** The figures of each contestant in one round. */
type Round = Map<string, Figures>

async function measure(row: Row, scale: Scale): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-bench-'))
  const endings: (() => unknown)[] = []
  /** For an interrupted run: nothing can be awaited, and gigabytes must not stay behind. */
  const leave = (): void => {
    for (const end of endings.reverse()) end()
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', leave)
  try {
    const stage = { folder, after: (end: () => unknown) => void endings.push(end) }
    const count = Math.min(scale.rounds, row.roundsMax ?? scale.rounds)
    const { on, contestants } = await row.prepare(stage, { ...scale, rounds: count })
    return { on, ...summed(row, Object.keys(contestants), await takeTurns(contestants, count)) }
  } finally {
    process.off('exit', leave)
    for (const end of endings.reverse()) await end()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function takeTurns(contestants: Record<string, Take>, count: number): Promise<Round[]> {
  const rounds: Round[] = []
  for (let n = 0; n < count; n++) {
    const round: Round = new Map()
    for (const [name, take] of Object.entries(contestants)) round.set(name, await take(n))
    rounds.push(round)
  }
  return rounds
}

/** The medians of the rounds. A ratio is taken within each round, where both sides met the same machine. */
function summed(row: Row, names: readonly string[], rounds: readonly Round[]): Omit<Result, 'on'> {
  const contestants = names.map((name) => {
    const figures = (Object.keys(FIGURES) as Figure[]).flatMap((figure) => {
      const spread = spreadOf(rounds.map((round) => round.get(name)?.[figure] ?? Number.NaN))
      return spread ? [[figure, spread]] : []
    })
    return { name, figures: Object.fromEntries(figures) }
  })
  const ratios = row.ratios.map(({ of, ...ratio }) => {
    const each = rounds.map((round) => {
      const seen: Seen = (contestant, figure) => round.get(contestant)?.[figure] ?? Number.NaN
      return of(seen)
    })
    return { ...ratio, spread: spreadOf(each) }
  })
  return { row, contestants, ratios }
}

// The steady ratios on record, and the margin of a run: a shared machine changes them by a fraction, a regression by a
// multiple. Times are never compared.

/** How many times worse than on record a ratio may be. */
const MARGIN = 2

const limit = z.strictObject({ better: z.enum(['more', 'less']), ratio: z.number().positive() })
/** By row and name of the ratio. */
const file = z.record(z.string(), z.record(z.string(), limit))
type Limits = z.infer<typeof file>

/** Throws when the file has another shape. */
const readLimits = (name: string): Limits => file.parse(JSON.parse(readFileSync(name, 'utf8')))

function limitInWords(recorded: z.infer<typeof limit> | undefined): string {
  if (!recorded) return ''
  const { better, ratio } = recorded
  return better === 'more' ? `, at least ${ratio / MARGIN}` : `, at most ${ratio * MARGIN}`
}

/** The ratios that are worse than allowed, a sentence each. A recorded ratio that was not measured is worse too. */
function broken({ row, ratios }: Result, limits: Limits): string[] {
  return Object.entries(limits[row.name] ?? {}).flatMap(([name, { better, ratio }]) => {
    const spread = ratios.find((measured) => measured.name === name)?.spread
    if (!spread) return [`${row.name}: ${name} is on record and was not measured`]
    const worse = better === 'more' ? ratio / spread.median : spread.median / ratio
    if (worse <= MARGIN) return []
    const seen = `${spread.median.toFixed(3)}, ${worse.toFixed(1)} times worse`
    return [`${row.name}: ${name} is ${seen} than the ${ratio} on record`]
  })
}

/** Replaces the recorded steady ratios of these rows. */
function writeLimits(name: string, results: readonly Result[]): void {
  const all = existsSync(name) ? readLimits(name) : {}
  for (const { row, ratios } of results) {
    const steady = ratios.flatMap(({ name, better, isSteady, spread }) =>
      spread && isSteady ? [[name, { better, ratio: Number(spread.median.toPrecision(3)) }]] : [],
    )
    if (steady.length > 0) all[row.name] = Object.fromEntries(steady)
  }
  writeFileSync(name, `${JSON.stringify(all, null, 2)}\n`)
}

const options = optionsOrExit(optionsOf)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
process.exitCode = await bench(options)
