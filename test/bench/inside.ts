// A process that runs a part of the source by itself, for what a whole process would hide: passes that fire nothing,
// and the backtest, which makes the scheduler's decisions.

import { databaseOf } from '../../src/cli/context.ts'
import { syntheticPath } from '../../src/cli/demo/simulated-partner.ts'
import { type Price, price } from '../../src/core/money.ts'
import { type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { type Frequency, WINDOW_MS } from '../../src/core/window.ts'
import { backtest, type History } from '../../src/engine/backtest.ts'
import { runPass } from '../../src/engine/pass.ts'
import { machine } from '../../src/machine.ts'
import { historyOf } from '../support/samples.ts'
import { serveJobs } from './helper.ts'
import { median } from './row.ts'

export type InsideJob =
  | { work: 'idle passes'; database: string }
  | { work: 'backtest' | 'sums'; frequency: Frequency; bars: number }
/** Of one pass, the median; of the whole backtest. */
export type InsideDone = { ms: number; cpuMs: number; bars: number }

const PASSES = 21
const BAR_MS = 5 * MINUTE_MS
/** Above every limit. */
const QUIET = { price: price('60000'), source: 'bench' }

let history: History | null = null

function prices(bars: number): History {
  const points = syntheticPath(1, bars).map((value, i) => ({
    at: plus(0 as Instant, i * BAR_MS),
    price: value as Price,
  }))
  return historyOf(points)
}

async function idlePasses(address: string): Promise<InsideDone> {
  const database = await databaseOf(address, machine)
  const store = await database.open({ create: false })
  try {
    const times: number[] = []
    const before = process.cpuUsage()
    for (let n = 0; n < PASSES; n++) {
      const begun = performance.now()
      const report = await runPass({
        store,
        machine,
        observe: async () => ({ price: QUIET, testimony: 'none' }),
      })
      times.push(performance.now() - begun)
      if (report?.executionsCreated !== 0) throw new Error('a pass was to fire nothing')
    }
    const { user, system } = process.cpuUsage(before)
    return { ms: median(times), cpuMs: (user + system) / 1000 / PASSES, bars: 0 }
  } finally {
    await store.close()
  }
}

function replay(frequency: Frequency, of: History): number {
  const { firstBar, endBar } = backtest(of, frequency)
  return endBar.reduce((sum, end, i) => sum + end - (firstBar[i] ?? 0), 0)
}

/** The least that a plain backtest has to do: the average price of the window that begins with each bar. */
function sums(frequency: Frequency, { at, value }: History): number {
  const bars = WINDOW_MS[frequency] / BAR_MS
  let passed = 0
  let all = 0
  for (let from = 0; from + bars <= at.length; from += 1) {
    let inverse = 0
    for (let i = from; i < from + bars; i++) inverse += 1 / (value[i] ?? 0)
    all += bars / inverse
    passed += bars
  }
  if (!(all > 0)) throw new Error('prices are above zero')
  return passed
}

function timed(work: () => number): InsideDone {
  const before = process.cpuUsage()
  const begun = performance.now()
  const bars = work()
  const ms = performance.now() - begun
  const { user, system } = process.cpuUsage(before)
  return { ms, cpuMs: (user + system) / 1000, bars }
}

serveJobs((job: InsideJob) => {
  if (job.work === 'idle passes') return idlePasses(job.database)
  history ??= prices(job.bars)
  const of = history
  return timed(() => (job.work === 'sums' ? sums : replay)(job.frequency, of))
})
