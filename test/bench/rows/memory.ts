// What serve holds in memory once it has answered everything that the other rows ask of it.

import { startBare } from '../bare-server.ts'
import { copyOf, databaseOfPlans } from '../database.ts'
import { type Server, startLoad } from '../loading.ts'
import { peakMib, residentMib } from '../process-cost.ts'
import { serve } from '../program.ts'
import type { Figures, Row } from '../row.ts'
import { counted } from '../words.ts'
import { confirmations, writeIds } from './confirm.ts'

const CONNECTIONS = 64
const POLLS = 20

export const memory: Row = {
  name: 'memory',
  what: `resident memory of serve after reads, confirmations and polls, ${CONNECTIONS} connections`,
  main: 'resident_mib',
  ratios: [
    {
      name: 'memory to h3',
      better: 'less',
      isSteady: true,
      of: (seen) => seen('ours', 'resident_mib') / seen('h3', 'resident_mib'),
    },
  ],
  goals: [{ figure: 'resident_mib', atMost: 150 }],

  async prepare(stage, { pick }) {
    const calls = pick({ quick: 3_000, full: 100_000 })
    const template = {
      name: 'template.db',
      users: 1000,
      plans: calls,
      limits: 'alike',
      executions: 'sent',
    } as const
    const { file, key } = await databaseOfPlans(stage, template)
    const confirmation = confirmations(key, writeIds(stage, file), CONNECTIONS)
    const load = await startLoad(stage)
    const headers = { authorization: `Bearer ${key}` }
    const get = (path: string) => ({ connections: CONNECTIONS, method: 'GET' as const, path, headers })
    const everything = async (server: Server): Promise<Figures> => {
      await load(server, { ...get('/partner/v1/me'), calls })
      await load(server, confirmation(calls, 0))
      await load(server, { ...get('/partner/v1/executions/due'), connections: 1, calls: POLLS })
      return { resident_mib: residentMib(server.pid) }
    }
    const named = counted(calls)
    return {
      on: `${named} reads, ${named} confirmations, ${POLLS} polls`,
      contestants: [
        {
          name: 'ours',
          role: 'ours',
          take: async () => {
            const served = await serve(stage, copyOf(file, 'ours.db'))
            const figures = await everything(served)
            const peak = peakMib(served.pid)
            await served.end()
            return { ...figures, peak_mib: peak }
          },
        },
        {
          name: 'h3',
          role: 'floor',
          take: async () => everything(await startBare(stage, 'h3')),
        },
      ],
    }
  },
}
