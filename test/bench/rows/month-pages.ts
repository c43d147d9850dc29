// Every page of a month's users over HTTP: a page costs the same at the start and at the end.

import { addTrades, fill } from '../../support/large-database.ts'
import { emptyDatabase, settle } from '../database.ts'
import { cpuUsOf, known } from '../process-cost.ts'
import { serve } from '../program.ts'
import type { Figures, Row } from '../row.ts'
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

  async prepare(stage, { pick }) {
    const users = pick({ quick: 10_000, full: 100_000 })
    const { file, key, tenantId } = await emptyDatabase(stage)
    const { month, start, end } = lastMonth()
    fill(file, (db) => addTrades(db, { tenantId, users, plans: users, trades: 2 * users, start, end }))
    settle(file)
    const served = await serve(stage, file)
    const page = async (cursor: string | null): Promise<string | null> => {
      const query = `month=${month}&limit=${users / PAGES}${cursor === null ? '' : `&cursor=${cursor}`}`
      const url = `${served.url}/partner/v1/billing/monthly/users?${query}`
      const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
      const body = (await response.json()) as { next_cursor: string | null }
      if (response.status !== 200) throw new Error(JSON.stringify(body))
      return body.next_cursor
    }
    let early: Figures = {}
    /** Reads all pages. The first one, which costs more than the others, is in neither half. */
    const take = async (): Promise<Figures> => {
      const times: number[] = []
      const cpu: number[] = []
      let cursor: string | null = null
      do {
        const begun = performance.now()
        cursor = await page(cursor)
        times.push(performance.now() - begun)
        cpu.push(cpuUsOf(served.pid))
      } while (cursor !== null)
      if (times.length !== PAGES) throw new Error(`${times.length} pages instead of ${PAGES}`)
      const half = PAGES / 2
      const part = (from: number, until: number): Figures =>
        known({
          ms: median(times.slice(from + 1, until + 1)),
          cpu_us: ((cpu[until] ?? Number.NaN) - (cpu[from] ?? Number.NaN)) / (until - from),
        })
      early = part(0, half)
      return { ...part(half, PAGES - 1), first_ms: times[0] ?? Number.NaN }
    }
    await take()
    return {
      on: `${counted(users)} users with two trades each, ${PAGES} pages`,
      contestants: [
        { name: 'ours', role: 'ours', take },
        { name: 'ours, the first half', role: 'ours', take: async () => early },
      ],
    }
  },
}
