// Polls that take a whole page, from few and from many executions that wait.

import { openFile } from '../../../src/store/sqlite/file/connection.ts'
import { copyOf, databaseOfPlans, settle } from '../database.ts'
import { startLoad } from '../loading.ts'
import { serve } from '../program.ts'
import { startRaw } from '../raw.ts'
import type { Contestant, Row, Stage } from '../row.ts'
import { counted } from '../words.ts'

const PAGE = 500
const FEW = 10_000
/** Each takes a page, and the next round finds it full again. */
const POLLS = 10

export const poll: Row = {
  name: 'poll',
  what: `GET executions/due, ${PAGE} at a time`,
  main: 'ms',
  ratios: [
    { name: 'time to raw', better: 'less', of: (seen) => seen('ours', 'ms') / seen('raw', 'ms') },
    {
      name: 'CPU of ours to raw',
      better: 'less',
      isSteady: true,
      of: (seen) => seen('ours', 'cpu_us') / seen('raw', 'cpu_us'),
    },
    {
      name: `the most to ${counted(FEW)}`,
      better: 'less',
      of: (seen) => seen('ours', 'ms') / seen(`ours, ${counted(FEW)}`, 'ms'),
    },
  ],
  goals: [
    { ratio: 'time to raw', atMost: 2 },
    { ratio: `the most to ${counted(FEW)}`, atMost: 1.5 },
    { figure: 'errors', atMost: 0 },
  ],

  async prepare(stage, { pick }) {
    const most = pick({ quick: 70_000, full: 1_000_000 })
    const [ours, raw] = await polled(stage, most)
    const [few] = await polled(stage, FEW)
    return {
      on: `${counted(most)} executions that wait, ${POLLS} polls a turn`,
      contestants: [
        { name: 'ours', role: 'ours', take: ours },
        { name: `ours, ${counted(FEW)}`, role: 'ours', take: few },
        { name: 'raw', role: 'floor', take: raw },
      ],
    }
  },
}

type Take = Contestant['take']

async function polled(stage: Stage, plans: number): Promise<[ours: Take, raw: Take]> {
  const template = {
    name: `template-${plans}.db`,
    users: 1000,
    plans,
    limits: 'alike',
    executions: 'pending',
  } as const
  const { file, key } = await databaseOfPlans(stage, template)
  const [load, raw] = [await startLoad(stage), await startRaw(stage)]
  const [own, byHand] = [copyOf(file, `ours-${plans}.db`), copyOf(file, `raw-${plans}.db`)]
  const served = await serve(stage, own)
  const call = {
    connections: 1,
    method: 'GET' as const,
    path: '/partner/v1/executions/due',
    headers: { authorization: `Bearer ${key}` },
    calls: POLLS,
  }
  const ours: Take = async () => {
    takeBack(own)
    const figures = await load(served, call)
    return { ...figures, ms: 1000 / (figures.per_second ?? Number.NaN) }
  }
  const floor: Take = () => {
    takeBack(byHand)
    settle(byHand)
    return raw({ work: 'polls', file: byHand, count: POLLS, perCommit: 1 })
  }
  await ours(0)
  await floor(0)
  return [ours, floor]
}

/** Puts back what the polls of a turn have taken. */
function takeBack(file: string): void {
  const db = openFile(file)
  db.pragma('busy_timeout = 5000')
  db.prepare(
    `update executions set status = 'pending', delivered_count = 0, lease_expires_at = null where status = 'sent'`,
  ).run()
  db.close()
}
