// What a start costs: a command of an operator's, and a tick from cron that finds nothing to do.

import type { Backend } from '../backend.ts'
import { onFile } from '../file/backend.ts'
import { known } from '../process-cost.ts'
import { type Run, run, runProgram } from '../program.ts'
import { median } from '../ratios.ts'
import type { Contestant, Row } from '../row.ts'
import { counted } from '../words.ts'

const PLANS = 10_000
const IDLE_TICK = ['tick', '--price', '60000']
const IDLE = 'ours, idle tick'
export const IDLE_ON_FILE = `${IDLE}, on a file`

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

  async prepare(stage, { on, pick }) {
    const starts = pick({ quick: 5, full: 30 })
    const { database } = await onFile.empty(stage)
    const waitingOn = async (which: Backend) => {
      const layout = { users: 1, plans: PLANS, limits: 'in turns' } as const
      return (await which.ofPlans(stage, { name: 'waiting', ...layout })).database
    }
    const waiting = await waitingOn(on)
    const beside = on.store === 'file' ? null : await waitingOn(onFile)
    const times = (start: () => Promise<Run & { serverMs?: number }>): Contestant['take'] => {
      return async () => {
        const runs: (Run & { serverMs?: number })[] = []
        for (let n = 0; n < starts; n++) runs.push(await start())
        const mean = (of: (run: (typeof runs)[number]) => number) =>
          runs.reduce((sum, run) => sum + of(run), 0) / starts
        return known({
          ms: median(runs.map(({ ms }) => ms)),
          cpu_us: 1000 * mean(({ cpuMs }) => cpuMs),
          server_us: 1000 * mean(({ serverMs = Number.NaN }) => serverMs),
        })
      }
    }
    const bare = () => runProgram(process.execPath, ['-e', '0'], { cwd: stage.folder })
    // The first start of all unpacks the addon.
    await run(beside ?? waiting, ['tick'])
    return {
      on: `${starts} starts a turn; ${counted(PLANS)} plans that wait`,
      contestants: [
        { name: 'ours', role: 'ours', take: times(() => run(database, ['version'])) },
        { name: IDLE, role: 'ours', take: times(() => run(waiting, IDLE_TICK)) },
        ...(beside
          ? [{ name: IDLE_ON_FILE, role: 'ours' as const, take: times(() => run(beside, IDLE_TICK)) }]
          : []),
        { name: 'node -e 0', role: 'floor', take: times(bare) },
      ],
    }
  },
}
