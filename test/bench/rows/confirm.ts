// Confirmations, each of another execution: over many connections, which share commits, and over one, which waits for
// the disk each time.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openFile } from '../../../src/store/sqlite/file/connection.ts'
import { copyOf, databaseOfPlans } from '../database.ts'
import { startLoad } from '../loading.ts'
import { serve } from '../program.ts'
import { startRaw } from '../raw.ts'
import type { Prepared, Row, Scale, Stage } from '../row.ts'
import { counted } from '../words.ts'
import { byHand, calledOnly, LONE_GOAL, LONE_RATIOS, WRITE_GOAL, WRITE_RATIOS } from '../write-floors.ts'

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
export function writeIds({ folder }: Pick<Stage, 'folder'>, database: string): string {
  const db = openFile(database)
  const sent = db
    .prepare<[], string>(`select execution_id from executions where status = 'sent' order by execution_id`)
    .pluck()
    .all()
  db.close()
  const file = join(folder, 'ids')
  writeFileSync(file, sent.join('\n'))
  return file
}

async function prepare(stage: Stage, { rounds }: Scale, size: Size): Promise<Prepared> {
  const { connections, calls, warmUp } = size
  const plans = warmUp + rounds * calls
  const template = { name: 'template.db', users: 1000, plans, limits: 'alike', executions: 'sent' } as const
  const { file, key } = await databaseOfPlans(stage, template)
  const confirmation = confirmations(key, writeIds(stage, file), connections)
  const [load, raw] = [await startLoad(stage), await startRaw(stage)]
  const served = await serve(stage, copyOf(file, 'ours.db'))
  await load(served, confirmation(warmUp, 0))
  return {
    on: `${counted(plans)} executions that are out, ${counted(calls)} a turn`,
    contestants: [
      {
        name: 'ours',
        role: 'ours',
        take: (round) => load(served, confirmation(calls, warmUp + round * calls)),
      },
      ...byHand({ raw, work: 'confirmations', file, calls }, connections),
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
