// What serve holds in memory once it has answered everything that the other rows ask of it.

import { startBare } from '../bare-server.ts'
import { type Server, startLoad } from '../loading.ts'
import { ours } from '../ours.ts'
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

  async prepare(stage, scale) {
    const calls = scale.pick({ quick: 3_000, full: 100_000 })
    const layout = { users: 1000, plans: calls, limits: 'alike', executions: 'sent' } as const
    const load = await startLoad(stage)
    const everything = async (server: Server, key: string, ids: string): Promise<Figures> => {
      const headers = { authorization: `Bearer ${key}` }
      const get = (path: string) => ({ connections: CONNECTIONS, method: 'GET' as const, path, headers })
      await load(server, { ...get('/partner/v1/me'), calls })
      await load(server, confirmations(key, ids, CONNECTIONS)(calls, 0))
      await load(server, { ...get('/partner/v1/executions/due'), connections: 1, calls: POLLS })
      return { resident_mib: residentMib(server.pid) }
    }
    const named = counted(calls)
    let ids = ''
    const contestants = await ours(scale, async (on) => {
      const { database, key } = await on.ofPlans(stage, { name: 'template', ...layout })
      const own = await writeIds(stage, on, database)
      ids = own
      return async () => {
        const served = await serve(stage, await on.copyOf(database, 'ours'))
        const figures = await everything(served, key, own)
        const peak = peakMib(served.pid)
        await served.end()
        return { ...figures, peak_mib: peak }
      }
    })
    const h3 = async () => everything(await startBare(stage, 'h3'), '', ids)
    return {
      on: `${named} reads, ${named} confirmations, ${POLLS} polls`,
      contestants: [...contestants, { name: 'h3', role: 'floor', take: h3 }],
    }
  },
}
