// A call that only reads: what the program adds to the server and the router that it is built on.

import { startBare } from '../bare-server.ts'
import { type Server, startLoad } from '../loading.ts'
import { ours } from '../ours.ts'
import { serve } from '../program.ts'
import { cpuOf, rateTo } from '../ratios.ts'
import type { Row } from '../row.ts'

const CONNECTIONS = 64
const WARM_UP_SECONDS = 0.5

export const me: Row = {
  name: 'me',
  what: `GET /me with a key, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: [rateTo('h3', 'h3'), cpuOf('h3', 'h3'), cpuOf('h3 with duties', 'h3 with duties')],
  goals: [
    { ratio: 'rate to h3', atLeast: 0.6 },
    { ratio: 'CPU of h3 to ours', atLeast: 0.6 },
    { figure: 'errors', atMost: 0 },
  ],

  async prepare(stage, scale) {
    const { pick } = scale
    const load = await startLoad(stage)
    const turns = async (server: Server, key = '') => {
      const call = {
        connections: CONNECTIONS,
        method: 'GET' as const,
        path: '/partner/v1/me',
        headers: { authorization: `Bearer ${key}` },
      }
      await load(server, { ...call, seconds: WARM_UP_SECONDS })
      const seconds = pick({ quick: 0.7, full: 8 })
      return () => load(server, { ...call, seconds })
    }
    return {
      on: 'an empty database',
      contestants: [
        ...(await ours(scale, async (on) => {
          const { database, key } = await on.empty(stage)
          return turns(await serve(stage, database), key)
        })),
        { name: 'h3', role: 'floor', take: await turns(await startBare(stage, 'h3')) },
        {
          name: 'h3 with duties',
          role: 'floor',
          take: await turns(await startBare(stage, 'h3 with duties')),
        },
        { name: 'node:http', role: 'floor', take: await turns(await startBare(stage, 'node:http')) },
      ],
      notes: [
        'A server that has less than a whole core was waiting for the load: then compare the processor time of a call.',
      ],
    }
  },
}
