// Confirmations, each of another execution: over many connections, which share commits, and over one, which waits for
// the disk each time.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openFile } from '../../../src/store/sqlite/file/connection.ts'
import { startBare } from '../bare-server.ts'
import { copyOf, databaseOfPlans } from '../database.ts'
import { type Load, startLoad } from '../loading.ts'
import { serve } from '../program.ts'
import { startRaw } from '../raw.ts'
import type { Contestant, Prepared, Row, Scale, Stage } from '../row.ts'
import { inSeries } from '../statistics.ts'

const CONNECTIONS = 64
const SHARED = 64

/** Calls of a turn, and calls before the first one. */
type Size = { connections: number; calls: number; warmUp: number }

type Bench = Prepared & { load: Load; confirmation: (calls: number, from: number) => Parameters<Load>[1] }

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

async function prepare(stage: Stage, { rounds }: Scale, size: Size): Promise<Bench> {
  const { connections, calls, warmUp } = size
  const plans = warmUp + rounds * calls
  const template = { name: 'template.db', users: 1000, plans, limits: 'alike', executions: 'sent' } as const
  const { file, key } = await databaseOfPlans(stage, template)
  const confirmation = confirmations(key, writeIds(stage, file), connections)
  const [load, raw] = [await startLoad(stage), await startRaw(stage)]
  const served = await serve(stage, copyOf(file, 'ours.db'))
  await load(served, confirmation(warmUp, 0))
  const byHand = (name: string, perCommit: number): Contestant => ({
    name,
    role: 'floor',
    take: () => {
      // One sync each takes its time: where it is not what is compared, fewer of them tell the rate.
      const count = perCommit === 1 && connections > 1 ? calls / 6 : calls
      return raw({ work: 'confirmations', file: copyOf(file, 'raw.db'), count, perCommit })
    },
  })
  return {
    load,
    confirmation,
    on: `${plans.toLocaleString('en-US')} executions that are out, ${calls.toLocaleString('en-US')} a turn`,
    contestants: [
      {
        name: 'ours',
        role: 'ours',
        take: (round) => load(served, confirmation(calls, warmUp + round * calls)),
      },
      byHand('raw, one a commit', 1),
      ...(connections === 1 ? [] : [byHand(`raw, ${SHARED} a commit`, SHARED)]),
    ],
  }
}

export const confirm: Row = {
  name: 'confirm',
  what: `POST confirm, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: [
    {
      name: `rate to h3 and raw, ${SHARED} a commit, in series`,
      better: 'more',
      of: (seen) =>
        seen('ours', 'per_second') /
        inSeries(seen('h3', 'per_second'), seen(`raw, ${SHARED} a commit`, 'per_second')),
    },
    {
      name: 'CPU of h3 and raw to ours',
      better: 'more',
      isSteady: true,
      of: (seen) =>
        (seen('h3', 'cpu_us') + seen(`raw, ${SHARED} a commit`, 'cpu_us')) / seen('ours', 'cpu_us'),
    },
  ],
  goals: [
    { ratio: `rate to h3 and raw, ${SHARED} a commit, in series`, atLeast: 0.6 },
    { figure: 'p99_ms', atMost: 25 },
    { figure: 'errors', atMost: 0 },
  ],

  async prepare(stage, scale) {
    const calls = scale.pick({ quick: 4_800, full: 60_000 })
    const bench = await prepare(stage, scale, { connections: CONNECTIONS, calls, warmUp: 4_000 })
    const h3 = await startBare(stage, 'h3')
    const take = () => bench.load(h3, bench.confirmation(calls, 0))
    await take()
    return { ...bench, contestants: [...bench.contestants, { name: 'h3', role: 'floor', take }] }
  },
}

export const confirmAlone: Row = {
  name: 'confirm-alone',
  what: 'POST confirm, one connection',
  main: 'per_second',
  ratios: [
    {
      name: 'rate to raw, one a commit',
      better: 'more',
      of: (seen) => seen('ours', 'per_second') / seen('raw, one a commit', 'per_second'),
    },
  ],
  goals: [
    { ratio: 'rate to raw, one a commit', atLeast: 0.6 },
    { figure: 'errors', atMost: 0 },
  ],

  prepare: (stage, scale) =>
    prepare(stage, scale, {
      connections: 1,
      calls: scale.pick({ quick: 600, full: 12_000 }),
      warmUp: 500,
    }),
}
