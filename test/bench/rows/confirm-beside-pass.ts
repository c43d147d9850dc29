// Confirmations while a tick in another process fires every plan.

import { startBare } from '../bare-server.ts'
import { copyOf, databaseOfPlans } from '../database.ts'
import { type Load, type Server, startLoad } from '../loading.ts'
import { serve, tick } from '../program.ts'
import { startRaw } from '../raw.ts'
import type { Figures, Row } from '../row.ts'
import { percentile } from '../statistics.ts'
import { counted } from '../words.ts'
import { confirmations, writeIds } from './confirm.ts'

const CONNECTIONS = 64
/** Calls between two looks at whether the pass has come to its end. */
const BATCH = 2_000

type Call = (calls: number, from: number) => Parameters<Load>[1]

/** Loads a server for as long as something else goes on. */
async function beside(
  work: () => Promise<unknown>,
  { load, call, server, ids }: { load: Load; call: Call; server: Server; ids: number },
): Promise<Figures> {
  let isOver = false
  const times: number[] = []
  let errors = 0
  const working = work().finally(() => {
    isOver = true
  })
  const begun = performance.now()
  for (let from = 0; !isOver && from + BATCH <= ids; from += BATCH) {
    const job = { ...call(BATCH, from), onTimes: (ms: readonly number[]) => void times.push(...ms) }
    errors += (await load(server, job)).errors ?? 0
  }
  const seconds = (performance.now() - begun) / 1000
  await working
  return {
    per_second: times.length / seconds,
    p50_ms: percentile(times, 0.5),
    p99_ms: percentile(times, 0.99),
    errors,
  }
}

export const confirmBesidePass: Row = {
  name: 'confirm-beside-pass',
  what: `POST confirm, ${CONNECTIONS} connections, while a tick in another process fires every plan`,
  main: 'p99_ms',
  roundsMax: 3,
  ratios: [
    {
      name: 'p99 to h3 beside a raw pass',
      better: 'less',
      of: (seen) => seen('ours', 'p99_ms') / seen('h3 beside a raw pass', 'p99_ms'),
    },
  ],
  goals: [
    { figure: 'p99_ms', atMost: 50 },
    { figure: 'errors', atMost: 0 },
  ],

  async prepare(stage, { pick }) {
    const plans = pick({ quick: 20_000, full: 1_000_000 })
    const template = { name: 'template.db', users: 1000, plans, limits: 'alike', executions: 'sent' } as const
    const { file, key } = await databaseOfPlans(stage, template)
    const call = confirmations(key, writeIds(stage, file), CONNECTIONS)
    const [load, raw] = [await startLoad(stage), await startRaw(stage)]
    const h3 = await startBare(stage, 'h3')
    await load(h3, call(BATCH, 0))
    return {
      on: `${counted(plans)} plans`,
      contestants: [
        {
          name: 'ours',
          role: 'ours',
          take: async () => {
            const copy = copyOf(file, 'ours.db')
            const server = await serve(stage, copy)
            await load(server, call(BATCH, 0))
            const pass = () => tick(copy, ['--price', '40000'])
            const figures = await beside(pass, {
              load,
              call: (n, from) => call(n, BATCH + from),
              server,
              ids: plans - BATCH,
            })
            await server.end()
            return figures
          },
        },
        {
          name: 'h3 beside a raw pass',
          role: 'floor',
          take: () => {
            const job = {
              work: 'pass',
              file: copyOf(file, 'raw.db'),
              count: plans,
              perCommit: 1_000,
            } as const
            return beside(() => raw(job), { load, call, server: h3, ids: Number.MAX_SAFE_INTEGER })
          },
        },
      ],
    }
  },
}
