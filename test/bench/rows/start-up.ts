// What a start costs: a command of an operator's, and a tick from cron that finds nothing to do.

import { copyOf, databaseOfPlans, emptyDatabase } from '../database.ts'
import { known } from '../process-cost.ts'
import { type Run, run, runProgram } from '../program.ts'
import type { Contestant, Row } from '../row.ts'
import { median } from '../statistics.ts'
import { counted } from '../words.ts'

const PLANS = 10_000

export const startUp: Row = {
  name: 'start-up',
  what: 'the start of a process: tranche version, an idle tick',
  main: 'ms',
  ratios: [
    {
      name: 'version to node -e 0',
      better: 'less',
      of: (seen) => seen('ours', 'ms') / seen('node -e 0', 'ms'),
    },
    {
      name: 'idle tick to node -e 0',
      better: 'less',
      of: (seen) => seen('ours, idle tick', 'ms') / seen('node -e 0', 'ms'),
    },
    {
      name: 'CPU of an idle tick to node -e 0',
      better: 'less',
      isSteady: true,
      of: (seen) => seen('ours, idle tick', 'cpu_us') / seen('node -e 0', 'cpu_us'),
    },
  ],
  goals: [
    { ratio: 'version to node -e 0', atMost: 3 },
    { ratio: 'idle tick to node -e 0', atMost: 4 },
  ],

  async prepare(stage, { pick }) {
    const starts = pick({ quick: 5, full: 30 })
    const { file } = await emptyDatabase(stage)
    const plans = { name: 'plans.db', users: 1, plans: PLANS, limits: 'in turns' } as const
    const waiting = copyOf((await databaseOfPlans(stage, plans)).file, 'waiting.db')
    const times = (start: () => Promise<Run>): Contestant['take'] => {
      return async () => {
        const runs: Run[] = []
        for (let n = 0; n < starts; n++) runs.push(await start())
        const cpuMs = runs.reduce((sum, { cpuMs }) => sum + cpuMs, 0)
        return known({ ms: median(runs.map(({ ms }) => ms)), cpu_us: (1000 * cpuMs) / starts })
      }
    }
    const bare = () => runProgram(process.execPath, ['-e', '0'], { cwd: stage.folder })
    // The first start of all unpacks the addon.
    await run(waiting, ['tick'])
    return {
      on: `${starts} starts a turn; ${counted(PLANS)} plans that wait`,
      contestants: [
        { name: 'ours', role: 'ours', take: times(() => run(file, ['version'])) },
        {
          name: 'ours, idle tick',
          role: 'ours',
          take: times(() => run(waiting, ['tick', '--price', '60000'])),
        },
        { name: 'node -e 0', role: 'floor', take: times(bare) },
      ],
    }
  },
}
