// A process that runs a part of the source by itself, for what a whole process would hide: passes that fire nothing, and
// the backtest, which makes the scheduler's decisions.

import { syntheticPath } from '../../src/cli/partner-sim/synthetic-prices.ts'
import type { Frequency } from '../../src/core/frequency.ts'
import { type Instant, MINUTE_MS, plus } from '../../src/core/instant.ts'
import { type Price, price } from '../../src/core/money.ts'
import { backtest, type History, historyOf } from '../../src/engine/backtest/replay.ts'
import { runPass } from '../../src/engine/pass.ts'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { serveJobs } from './helper.ts'
import { median } from './statistics.ts'

export type InsideJob =
  | { work: 'idle passes'; file: string }
  | { work: 'backtest'; frequency: Frequency; bars: number }
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

async function idlePasses(file: string): Promise<InsideDone> {
  const store = await openStore(file, { clock: machine.clock })
  try {
    const times: number[] = []
    const before = process.cpuUsage()
    for (let n = 0; n < PASSES; n++) {
      const begun = performance.now()
      const report = await runPass({ store, machine, observe: async () => ({ price: QUIET, told: 'none' }) })
      times.push(performance.now() - begun)
      if (report?.executionsCreated !== 0) throw new Error('a pass was to fire nothing')
    }
    const { user, system } = process.cpuUsage(before)
    return { ms: median(times), cpuMs: (user + system) / 1000 / PASSES, bars: 0 }
  } finally {
    store.close()
  }
}

function replay(frequency: Frequency, bars: number): InsideDone {
  history ??= prices(bars)
  const before = process.cpuUsage()
  const begun = performance.now()
  const windows = backtest(history, frequency)
  const ms = performance.now() - begun
  const { user, system } = process.cpuUsage(before)
  const passed = windows.reduce((sum, window) => sum + window.bars, 0)
  return { ms, cpuMs: (user + system) / 1000, bars: passed }
}

serveJobs((job: InsideJob) =>
  job.work === 'backtest' ? replay(job.frequency, job.bars) : idlePasses(job.file),
)
