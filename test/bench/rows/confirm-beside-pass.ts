// Confirmations while a tick in another process fires every plan.

import { startBare } from '../bare-server.ts'
import { type Load, type Server, startLoad } from '../loading.ts'
import { ours } from '../ours.ts'
import { serve, tick } from '../program.ts'
import type { Figures, Row } from '../row.ts'
import { percentile } from '../statistics.ts'
import { counted } from '../words.ts'
import { confirmations, writeIds } from './confirm.ts'
import { PER_COMMIT } from './pass.ts'

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

  async prepare(stage, scale) {
    const { on, pick } = scale
    const plans = pick({ quick: 20_000, full: 1_000_000 })
    const template = { name: 'template', users: 1000, plans, limits: 'alike', executions: 'sent' } as const
    const load = await startLoad(stage)
    let first: { database: string; call: Call } | undefined
    const contestants = await ours(scale, async (on) => {
      const { database, key } = await on.ofPlans(stage, template)
      const call = confirmations(key, await writeIds(stage, on, database), CONNECTIONS)
      first ??= { database, call }
      return async () => {
        const copy = await on.copyOf(database, 'ours')
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
      }
    })
    if (!first) throw new Error('nothing of ours was prepared')
    const { database, call } = first
    const raw = await on.raw(stage)
    const h3 = await startBare(stage, 'h3')
    await load(h3, call(BATCH, 0))
    const floor = async (): Promise<Figures> => {
      const job = {
        work: 'pass',
        database: await on.copyOf(database, 'raw'),
        count: plans,
        perCommit: PER_COMMIT[on.store],
      } as const
      return beside(() => raw(job), { load, call, server: h3, ids: Number.MAX_SAFE_INTEGER })
    }
    return {
      on: `${counted(plans)} plans`,
      contestants: [...contestants, { name: 'h3 beside a raw pass', role: 'floor', take: floor }],
    }
  },
}
