// Measures a row: its contestants in turns, round by round, so that a busy moment of the machine is everybody's.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spreadOf } from './ratios.ts'
import {
  type Contestant,
  type Failure,
  FIGURES,
  type Figure,
  type Figures,
  type Goal,
  type Measured,
  type Ratio,
  type Result,
  type Row,
  type Scale,
  type Seen,
} from './row.ts'
import { counted } from './words.ts'

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
