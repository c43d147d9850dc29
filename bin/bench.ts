// `npm run bench`: what a pass costs, as ratios of figures taken in the same run. Single times on a shared machine say
// nothing; these are printed only so that the ratios can be checked.

import { syntheticPath } from '../src/cli/partner-sim/synthetic-prices.ts'
import { type Instant, MINUTE_MS, plus } from '../src/core/instant.ts'
import { type Price, price } from '../src/core/money.ts'
import { backtest, historyOf } from '../src/engine/backtest/replay.ts'
import { runPass } from '../src/engine/pass.ts'
import { manyWaiting, type Waiting } from '../test/engine/waiting.ts'
import { T0 } from '../test/support/service.ts'

const FEW = 10_000
const MANY = 1_000_000
const PASSES = 41
const BARS = 100_000

const cleanUps: (() => void)[] = []
const say = (text: string): boolean => process.stdout.write(`${text}\n`)

try {
  say(`filling ${FEW} and ${MANY} waiting plans`)
  const stage = { after: (clean: () => void) => void cleanUps.push(clean) }
  const few = await manyWaiting(stage, FEW)
  const many = await manyWaiting(stage, MANY)
  await idlePasses(few, many)
  await firingPass(few)
  playedBars()
} finally {
  for (const clean of cleanUps.reverse()) clean()
}

/** A pass that fires nothing, over few plans and over a hundred times as many, taken in turns. */
async function idlePasses(few: Waiting, many: Waiting): Promise<void> {
  const times: [number[], number[]] = [[], []]
  for (let turn = 0; turn < PASSES; turn++) {
    for (const [i, waiting] of [few, many].entries())
      times[i]?.push(await timed(() => pass(waiting, price('60000'))))
  }
  const [a, b] = times.map(median)
  say(
    `idle pass: ${ms(a)} over ${FEW} plans, ${ms(b)} over ${MANY}: ratio ${((b ?? 0) / (a ?? 1)).toFixed(2)}`,
  )
}

/** A pass in which every plan fires, against as many single inserts as it makes commits. */
async function firingPass(waiting: Waiting): Promise<void> {
  let fired = 0
  const spent = await timed(async () => {
    fired = (await pass(waiting, price('40000'))).executionsCreated
  })
  say(`firing pass: ${fired} tranches in ${ms(spent)}, ${Math.round((1000 * fired) / spent)} a second`)
}

/** The backtest, which makes the scheduler's decisions: bars it passes in a second, by window. */
function playedBars(): void {
  const prices = syntheticPath(1, BARS)
  const points = prices.map((value, i) => ({
    at: plus(T0, i * 5 * MINUTE_MS) as Instant,
    price: value as Price,
  }))
  const history = historyOf(points)
  for (const frequency of ['daily', 'weekly', 'bi-weekly'] as const) {
    const from = performance.now()
    const results = backtest(history, frequency)
    const bars = results.reduce((sum, window) => sum + window.bars, 0)
    const spent = performance.now() - from
    say(
      `backtest ${frequency}: ${results.length} windows, ${(bars / spent / 1000).toFixed(1)} million bars a second`,
    )
  }
}

async function pass({ store, machine }: Waiting, value: Price) {
  const price = { price: value, source: 'bench' }
  const report = await runPass({ store, machine, observe: async () => ({ price, told: 'none' }) })
  if (!report) throw new Error('another pass is running')
  return report
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now()
  await work()
  return performance.now() - from
}

function median(times: number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0
}

function ms(time: number | undefined): string {
  return `${(time ?? 0).toFixed(1)} ms`
}
