// The backtest: bars of a price history that the scheduler's own decisions pass in a second.

import { join } from 'node:path'
import { FREQUENCIES, type Frequency } from '../../../src/core/time.ts'
import { startHelper } from '../helper.ts'
import type { InsideDone, InsideJob } from '../inside.ts'
import type { Contestant, Figures, Row, Stage } from '../row.ts'
import { counted } from '../words.ts'

const nameOf = (frequency: Frequency): string =>
  frequency === 'daily' ? 'ours' : `ours, ${frequency} windows`

export const backtest: Row = {
  name: 'backtest',
  what: 'the backtest, daily windows, without reading the file: bars',
  main: 'per_second',
  ratios: [
    {
      name: 'CPU of the averages to ours',
      better: 'more',
      isSteady: true,
      of: (seen) => seen('the average of each window', 'cpu_us') / seen('ours', 'cpu_us'),
    },
  ],
  goals: [{ figure: 'per_second', atLeast: 10_000_000 }],

  async prepare(stage, { pick }) {
    const bars = pick({ quick: 60_000, full: 400_000 })
    const start = (own: Pick<Stage, 'after'>) =>
      startHelper<InsideJob, InsideDone>(own, join(import.meta.dirname, '../inside.ts'))
    const inside = await start(stage)
    const figures = ({ ms, cpuMs, bars: passed }: InsideDone): Figures => ({
      per_second: (1000 * passed) / ms,
      cpu_us: (1000 * cpuMs) / passed,
    })
    const played = (frequency: Frequency, work: 'backtest' | 'sums') => async () =>
      figures(await inside.ask({ work, frequency, bars }))
    /** As a command runs it: with nothing compiled. */
    const cold = async (): Promise<Figures> => {
      const endings: (() => unknown)[] = []
      try {
        const fresh = await start({ after: (end) => void endings.push(end) })
        return figures(await fresh.ask({ work: 'backtest', frequency: 'daily', bars }))
      } finally {
        for (const end of endings) await end()
      }
    }
    const contestants: Contestant[] = FREQUENCIES.map((frequency) => ({
      name: nameOf(frequency),
      role: 'ours',
      take: played(frequency, 'backtest'),
    }))
    contestants.push({ name: 'ours, in a fresh process', role: 'ours', take: cold })
    contestants.push({ name: 'the average of each window', role: 'floor', take: played('daily', 'sums') })
    for (const { take } of contestants) await take(0)
    return { on: `${counted(bars)} prices, five minutes apart`, contestants }
  },
}
