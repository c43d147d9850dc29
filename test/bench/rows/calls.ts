// Calls over HTTP: a read with a key, writes that share commits, and polls that take a whole page.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { usersOf } from '../../support/large-database.ts'
import { type Backend, type Place, plansWith } from '../backend.ts'
import { type Load, type RawJob, type Server, startBare, startLoad, startRaw } from '../helper.ts'
import { serve } from '../program.ts'
import { counted, cpuOf, multiple, type Row, rateTo, type Stage, type Take } from '../row.ts'

const CONNECTIONS = 64

/** The load's parameters except the number of calls. */
type Call = Omit<Parameters<Load>[1], 'calls' | 'from'>

export const read = (key: string, path = 'me'): Call => ({
  connections: CONNECTIONS,
  method: 'GET',
  path: `/partner/v1/${path}`,
  key,
})

// A call that only reads: the cost of the program on top of the server and the router it is built on.

const me: Row = {
  name: 'me',
  what: `GET /me with a key, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: [rateTo('h3', 'h3'), cpuOf('h3', 'h3')],

  async prepare(stage, { on, pick }) {
    const load = await startLoad(stage)
    const { database, key } = await on.place(stage, 'empty')
    const calls = pick({ quick: 10_000, full: 200_000 })
    const turns = async (server: Server): Promise<Take> => {
      await load(server, { ...read(key), calls: 6_000 })
      return () => load(server, { ...read(key), calls })
    }
    return {
      on: `an empty database, ${counted(calls)} calls a turn`,
      contestants: {
        ours: await turns(await serve(stage, database)),
        h3: await turns(await startBare(stage, 'h3')),
      },
    }
  },
}

// Writes, compared with a hand-written loop of the same transaction and with the call alone. A call and its write need
// the same thread, one after the other.

type Write = Pick<Row, 'what'> & {
  name: 'confirm' | 'plan'
  warmUp: number
  /** Makes the database for so many calls, and a line for each of them. */
  make: (stage: Stage, on: Backend, calls: number) => Promise<{ place: Place; call: Call; on: string }>
  /** How the hand-written loop commits: as ours does. */
  byHand: Record<Backend['store'], Pick<RawJob, 'perCommit' | 'connections'>>
}

const writing = ({ name, what, warmUp, make, byHand }: Write): Row => ({
  name,
  what: `${what}, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: [
    rateTo('h3 and raw, in series', 'h3', 'raw'),
    cpuOf('h3 and raw', 'h3', 'raw'),
    multiple('memory to h3', 'resident_mib', ['ours', 'h3']),
  ],

  async prepare(stage, { on, rounds, pick }) {
    const calls = pick({ quick: 4_800, full: 60_000 })
    const { place, call, on: what } = await make(stage, on, warmUp + rounds * calls)
    const load = await startLoad(stage)
    const served = await serve(stage, await on.copyOf(place.database, 'ours'))
    await load(served, { ...call, calls: warmUp, from: 0 })
    const raw = await startRaw(stage, on.store)
    const h3 = await startBare(stage, 'h3')
    await load(h3, { ...call, calls, from: 0 })
    const job = { work: name, count: calls, ...byHand[on.store] }
    return {
      on: `${what}, ${counted(calls)} calls a turn`,
      contestants: {
        ours: (round) => load(served, { ...call, calls, from: warmUp + round * calls }),
        raw: async () => raw({ ...job, database: await on.copyOf(place.database, 'raw') }),
        h3: () => load(h3, { ...call, calls, from: 0 }),
      },
    }
  },
})

/** Confirms one execution after the other. */
const confirmation = (key: string, ids: string): Call => ({
  connections: CONNECTIONS,
  method: 'POST',
  path: '/partner/v1/executions/$ID/confirm',
  key,
  body: JSON.stringify({
    partner_order_id: 'order-$ID',
    status: 'filled',
    usd_amount: '10.00',
    btc_amount: '0.00020000',
    execution_price: '50000.00',
  }),
  ids,
})

/** Writes lines for the load, and returns the name of their file. */
function linesIn({ folder }: Stage, name: string, lines: readonly string[]): string {
  const file = join(folder, `${name}.ids`)
  writeFileSync(file, lines.join('\n'))
  return file
}

const confirm = writing({
  name: 'confirm',
  what: 'POST confirm',
  warmUp: 4_000,
  byHand: { file: { perCommit: 64 }, postgres: { perCommit: 64 } },
  async make(stage, on, calls) {
    const place = await on.place(
      stage,
      'template',
      plansWith({ plans: calls, limits: 'alike', executions: 'sent' }),
    )
    const call = confirmation(place.key, linesIn(stage, 'sent', await on.sentIds(place.database)))
    return { place, call, on: `${counted(calls)} executions that are out` }
  },
})

const USERS = 1_000

/** New plans, each with its first window and schedule. On a server each is a transaction on one of ten connections. */
const plan = writing({
  name: 'plan',
  what: 'POST plans, new ones',
  warmUp: 3_000,
  byHand: { file: { perCommit: 64 }, postgres: { perCommit: 1, connections: 10 } },
  async make(stage, on, calls) {
    const place = await on.place(stage, 'template', (tenantId) => usersOf({ tenantId, users: USERS }))
    const names = (i: number) => `"partner_user_id":"u${1 + (i % USERS)}","partner_plan_id":"plan-${i}"`
    const lines = Array.from({ length: calls }, (_, i) => names(i))
    const ids = linesIn(stage, 'plans', lines)
    const body = '{$ID,"amount_usd":"60.00","frequency":"daily"}'
    const call: Call = { ...read(place.key, 'plans'), method: 'POST', body, ids }
    return { place, call, on: `${counted(USERS)} users` }
  },
})

// Polls that take a whole page, from few and from many waiting executions.

const PAGE = 500
const FEW = 10_000
/** Each takes a page, and the next round finds it full again. */
const POLLS = 10

const poll: Row = {
  name: 'poll',
  what: `GET executions/due, ${PAGE} at a time`,
  main: 'ms',
  ratios: [
    multiple('time to raw', 'ms', ['ours', 'raw']),
    multiple('CPU of ours to raw', 'cpu_us', ['ours', 'raw']),
    multiple(`the most to ${counted(FEW)}`, 'ms', ['ours', `ours, ${counted(FEW)}`]),
  ],

  async prepare(stage, { on, pick }) {
    const most = pick({ quick: 70_000, full: 1_000_000 })
    const waiting = (plans: number): Promise<Place> =>
      on.place(stage, `waiting-${plans}`, plansWith({ plans, limits: 'alike', executions: 'pending' }))
    const [many, few] = [await waiting(most), await waiting(FEW)]
    const ours = async ({ database, key }: Place): Promise<Take> => {
      const load = await startLoad(stage)
      const copy = await on.copyOf(database, database === many.database ? 'ours' : 'few')
      const served = await serve(stage, copy)
      return afterTakingBack(on, copy, async () => {
        const figures = await load(served, { ...read(key, 'executions/due'), connections: 1, calls: POLLS })
        return { ...figures, ms: 1000 / (figures.per_second ?? Number.NaN) }
      })
    }
    const contestants = { ours: await ours(many), [`ours, ${counted(FEW)}`]: await ours(few) }
    const raw = await startRaw(stage, on.store)
    const copy = await on.copyOf(many.database, 'raw')
    const byHand = () => raw({ work: 'poll', database: copy, count: POLLS, perCommit: 1 })
    return {
      on: `${counted(most)} executions that wait, ${POLLS} polls a turn`,
      contestants:
        on.store === 'file' ? { ...contestants, raw: await afterTakingBack(on, copy, byHand) } : contestants,
    }
  },
}

/** Turns on a database where all executions are made to wait again before each turn. The first turn is a warm-up. */
async function afterTakingBack(on: Backend, database: string, take: Take): Promise<Take> {
  const turn: Take = async (round) => {
    await on.takeBack(database)
    return take(round)
  }
  await turn(0)
  return turn
}

export const CALLS = [me, confirm, plan, poll]
