// Confirmations, each of another execution: over many connections, which share commits, and over one, which waits for
// the disk each time.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Backend } from '../backend.ts'
import { startLoad } from '../loading.ts'
import { ours, withWal } from '../ours.ts'
import { serve } from '../program.ts'
import type { Prepared, Row, Scale, Stage } from '../row.ts'
import { counted } from '../words.ts'
import {
  byHand,
  calledOnly,
  LONE_GOAL,
  LONE_RATIOS,
  TOGETHER,
  WRITE_GOAL,
  WRITE_RATIOS,
} from '../write-floors.ts'

const CONNECTIONS = 64

/** Calls of a turn, and calls before the first one. */
type Size = { connections: number; calls: number; warmUp: number }

/** The confirmation of one execution after the other, as a job for the load. */
export const confirmations =
  (key: string, ids: string, connections: number) => (calls: number, from: number) => ({
    connections,
    method: 'POST' as const,
    path: '/partner/v1/executions/$ID/confirm',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({
      partner_order_id: 'order-$ID',
      status: 'filled',
      usd_amount: '10.00',
      btc_amount: '0.00020000',
      execution_price: '50000.00',
    }),
    calls,
    ids,
    from,
  })

/** Writes the ids of the executions that are out, a line each, and returns the name of the file. */
export async function writeIds(
  { folder }: Pick<Stage, 'folder'>,
  on: Backend,
  database: string,
): Promise<string> {
  const file = join(folder, `ids-${on.store}`)
  writeFileSync(file, (await on.sentIds(database)).join('\n'))
  return file
}

async function prepare(stage: Stage, scale: Scale, size: Size): Promise<Prepared> {
  const { connections, calls, warmUp } = size
  const plans = warmUp + scale.rounds * calls
  const template = { name: 'template', users: 1000, plans, limits: 'alike', executions: 'sent' } as const
  const load = await startLoad(stage)
  let first: { database: string; confirmation: ReturnType<typeof confirmations> } | undefined
  const contestants = await ours(scale, async (on) => {
    const { database, key } = await on.ofPlans(stage, template)
    const confirmation = confirmations(key, await writeIds(stage, on, database), connections)
    first ??= { database, confirmation }
    const served = await serve(stage, await on.copyOf(database, 'ours'))
    await load(served, confirmation(warmUp, 0))
    return (round) => withWal(on, calls, () => load(served, confirmation(calls, warmUp + round * calls)))
  })
  if (!first) throw new Error('nothing of ours was prepared')
  const { database, confirmation } = first
  const { on } = scale
  const raw = await on.raw(stage)
  return {
    on: `${counted(plans)} executions that are out, ${counted(calls)} a turn`,
    contestants: [
      ...contestants,
      ...byHand({ on, raw, work: 'confirmations', database, calls, onServer: TOGETHER }, connections),
      ...(await calledOnly(stage, load, confirmation(calls, 0))),
    ],
  }
}

export const confirm: Row = {
  name: 'confirm',
  what: `POST confirm, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: WRITE_RATIOS,
  goals: [WRITE_GOAL, { figure: 'p99_ms', atMost: 25 }, { figure: 'errors', atMost: 0 }],

  prepare: (stage, scale) =>
    prepare(stage, scale, {
      connections: CONNECTIONS,
      calls: scale.pick({ quick: 4_800, full: 60_000 }),
      warmUp: 4_000,
    }),
}

export const confirmAlone: Row = {
  name: 'confirm-alone',
  what: 'POST confirm, one connection',
  main: 'per_second',
  ratios: LONE_RATIOS,
  goals: [LONE_GOAL, { figure: 'errors', atMost: 0 }],

  prepare: (stage, scale) =>
    prepare(stage, scale, {
      connections: 1,
      calls: scale.pick({ quick: 600, full: 12_000 }),
      warmUp: 500,
    }),
}
