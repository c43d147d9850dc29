// Every page of a month's users over HTTP: a page costs the same at the start and at the end.

import type { Backend } from '../backend.ts'
import { ours } from '../ours.ts'
import { cpuUsOf, databaseCpuUs, known } from '../process-cost.ts'
import { serve } from '../program.ts'
import type { Figures, Row, Stage } from '../row.ts'
import { median } from '../statistics.ts'
import { counted } from '../words.ts'
import { lastMonth } from './export.ts'

const PAGES = 100

export const monthPages: Row = {
  name: 'month-pages',
  what: 'GET billing/monthly/users, every page of a month',
  main: 'ms',
  ratios: [
    {
      name: 'CPU of the second half of the pages to the first',
      better: 'less',
      isSteady: true,
      of: (seen) => seen('ours', 'cpu_us') / seen('ours, the first half', 'cpu_us'),
    },
    {
      name: 'a page to the first one, which draws up the month',
      better: 'less',
      of: (seen) => seen('ours', 'ms') / seen('ours', 'first_ms'),
    },
  ],
  goals: [
    { ratio: 'CPU of the second half of the pages to the first', atMost: 1.5 },
    { ratio: 'a page to the first one, which draws up the month', atMost: 0.5 },
  ],

  async prepare(stage, scale) {
    const users = scale.pick({ quick: 10_000, full: 100_000 })
    let early: Figures = {}
    const contestants = await ours(scale, async (on) => {
      const take = await reading(stage, on, users)
      await take()
      return async () => {
        const { first, second } = await take()
        if (on === scale.on) early = first
        return second
      }
    })
    return {
      on: `${counted(users)} users with two trades each, ${PAGES} pages`,
      contestants: contestants.toSpliced(1, 0, {
        name: 'ours, the first half',
        role: 'ours',
        take: async () => early,
      }),
    }
  },
}

/** Reads all pages of a month, in two halves. The first page, which costs more than the others, is in neither. */
async function reading(stage: Stage, on: Backend, users: number) {
  const { start, end, month } = lastMonth()
  const layout = { users, plans: users, trades: 2 * users, start, end }
  const { database, key } = await on.ofTrades(stage, { name: 'month', ...layout })
  const served = await serve(stage, database)
  const page = async (cursor: string | null): Promise<string | null> => {
    const query = `month=${month}&limit=${users / PAGES}${cursor === null ? '' : `&cursor=${cursor}`}`
    const url = `${served.url}/partner/v1/billing/monthly/users?${query}`
    const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
    const body = (await response.json()) as { next_cursor: string | null }
    if (response.status !== 200) throw new Error(JSON.stringify(body))
    return body.next_cursor
  }
  return async (): Promise<{ first: Figures; second: Figures }> => {
    const times: number[] = []
    const [cpu, server]: [number[], number[]] = [[], []]
    let cursor: string | null = null
    do {
      const begun = performance.now()
      cursor = await page(cursor)
      times.push(performance.now() - begun)
      cpu.push(cpuUsOf(served.pid))
      server.push(databaseCpuUs(database))
    } while (cursor !== null)
    if (times.length !== PAGES) throw new Error(`${times.length} pages instead of ${PAGES}`)
    const half = PAGES / 2
    const part = (from: number, until: number): Figures => {
      const each = (of: readonly number[]) =>
        ((of[until] ?? Number.NaN) - (of[from] ?? Number.NaN)) / (until - from)
      const ms = median(times.slice(from + 1, until + 1))
      return known({ ms, cpu_us: each(cpu), server_us: each(server) })
    }
    return { first: part(0, half), second: { ...part(half, PAGES - 1), first_ms: times[0] ?? Number.NaN } }
  }
}
