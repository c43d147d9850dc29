// Polls that take a whole page, from few and from many executions that wait.

import type { Backend } from '../backend.ts'
import { startLoad } from '../loading.ts'
import { ON_FILE, ours } from '../ours.ts'
import { serve } from '../program.ts'
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

  async prepare(stage, scale) {
    const { on, pick } = scale
    const most = pick({ quick: 70_000, full: 1_000_000 })
    let hand: Take | undefined
    const contestants = await ours(scale, async (on) => {
      const place = await waiting(stage, on, most)
      if (on === scale.on) hand = await byHand(stage, on, place)
      return polled(stage, on, place)
    })
    const few = await polled(stage, on, await waiting(stage, on, FEW))
    return {
      on: `${counted(most)} executions that wait, ${POLLS} polls a turn`,
      contestants: [
        ...contestants.filter(({ name }) => name !== ON_FILE),
        { name: `ours, ${counted(FEW)}`, role: 'ours', take: few },
        ...contestants.filter(({ name }) => name === ON_FILE),
        ...(hand ? [{ name: 'raw', role: 'floor' as const, take: hand }] : []),
      ],
    }
  },
}

type Take = Contestant['take']
type Waiting = { template: string; plans: number; key: string }

async function waiting(stage: Stage, on: Backend, plans: number): Promise<Waiting> {
  const name = `template-${plans}`
  const layout = { users: 1000, plans, limits: 'alike', executions: 'pending' } as const
  const { database, key } = await on.ofPlans(stage, { name, ...layout })
  return { template: database, plans, key }
}

async function polled(stage: Stage, on: Backend, { template, plans, key }: Waiting): Promise<Take> {
  const load = await startLoad(stage)
  const own = await on.copyOf(template, `ours-${plans}`)
  const served = await serve(stage, own)
  const call = {
    connections: 1,
    method: 'GET' as const,
    path: '/partner/v1/executions/due',
    headers: { authorization: `Bearer ${key}` },
    calls: POLLS,
  }
  const take: Take = async () => {
    await on.takeBack(own)
    const figures = await load(served, call)
    return { ...figures, ms: 1000 / (figures.per_second ?? Number.NaN) }
  }
  await take(0)
  return take
}

async function byHand(stage: Stage, on: Backend, { template, plans }: Waiting): Promise<Take> {
  const raw = await on.raw(stage)
  const database = await on.copyOf(template, `raw-${plans}`)
  const take: Take = async () => {
    await on.takeBack(database)
    return raw({ work: 'polls', database, count: POLLS, perCommit: 1 })
  }
  await take(0)
  return take
}
