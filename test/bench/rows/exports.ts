// The export of a month's trades, held against the shell of SQLite.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isMonth, periodOf } from '../../../src/core/month.ts'
import { formatInstant, type Instant } from '../../../src/core/time.ts'
import { machine } from '../../../src/machine.ts'
import { type Backend, ours } from '../backend.ts'
import { type Server, startBare, startLoad, TRADES_BY_HAND } from '../helper.ts'
import {
  cpuUsOf,
  databaseCpuUs,
  isInstalled,
  known,
  peakMib,
  type Run,
  residentMib,
  run,
  runProgram,
  serve,
} from '../program.ts'
import { counted } from '../report.ts'
import { cpuOf, type Figures, median, type Row, rateTo, type Stage } from '../row.ts'
import { confirmations, writeIds } from './calls.ts'

const USERS = 10_000

const READING = { file: 'better-sqlite3, reading alone', postgres: 'pg, reading alone' }

/** The month before the present one. */
function lastMonth(): { month: string; start: Instant; end: Instant } {
  const present = period(formatInstant(machine.clock()).slice(0, 7))
  return period(formatInstant((present.start - 1) as Instant).slice(0, 7))
}

function period(month: string) {
  if (!isMonth(month)) throw new Error(`${month} is not a month`)
  return periodOf(month)
}

export const billingExport: Row = {
  name: 'export',
  what: 'billing export of the trades of a month, to a file',
  main: 'per_second',
  ratios: [
    rateTo('sqlite3 -csv', 'sqlite3 -csv'),
    cpuOf('sqlite3', 'sqlite3 -csv'),
    {
      name: `rate of ${READING.file}, to sqlite3 -csv`,
      better: 'more',
      of: (seen) => seen(READING.file, 'per_second') / seen('sqlite3 -csv', 'per_second'),
    },
  ],
  goals: [
    { ratio: 'rate to sqlite3 -csv', atLeast: 0.5 },
    { figure: 'peak_mib', atMost: 150 },
  ],

  async prepare(stage, scale) {
    const { on, pick } = scale
    const trades = pick({ quick: 60_000, full: 5_000_000 })
    const { month, start, end } = lastMonth()
    const out = join(stage.folder, 'out')
    mkdirSync(out)
    const rows = ({ ms, cpuMs, peakMib, serverMs = Number.NaN }: Run & { serverMs?: number }): Figures =>
      known({
        per_second: (1000 * trades) / ms,
        cpu_us: (1000 * cpuMs) / trades,
        server_us: (1000 * serverMs) / trades,
        peak_mib: peakMib,
      })
    let of = ''
    const contestants = await ours(scale, async (on) => {
      const layout = { users: USERS, plans: 2 * USERS, trades, start, end }
      const { database } = await on.ofTrades(stage, { name: 'trades', ...layout })
      if (on === scale.on) of = database
      const to = ['--output', join(out, `${on.store}.csv`), '--force']
      const argv = ['billing', 'export', '--month', month, '--report', 'trades', ...to]
      // The first export of a month closes it.
      await run(database, argv)
      return async () => rows(await run(database, argv))
    })
    const shell = shellOf(on, of)
    const raw = await on.raw(stage)
    const job = { work: 'trades', count: trades, perCommit: trades } as const
    contestants.push({
      name: READING[on.store],
      role: 'floor',
      take: async () => raw({ ...job, database: await on.copyOf(of, 'raw') }),
    })
    if (shell) {
      const take = async () => {
        const before = databaseCpuUs(of)
        const done = await runProgram('/bin/sh', ['-c', ...shell.argv], { cwd: out })
        return rows({ ...done, serverMs: (databaseCpuUs(of) - before) / 1000 })
      }
      contestants.push({ name: shell.name, role: 'floor', take })
    }
    return {
      on: `${counted(trades)} trades of ${counted(USERS)} users`,
      contestants,
      notes: shell ? [] : ['NOT MEASURED: sqlite3 is not installed, so there is no floor.'],
    }
  },
}

/** The store's own shell, which writes the same rows as they are; null where it is missing. */
function shellOf({ store }: Backend, database: string): { name: string; argv: string[] } | null {
  if (store === 'postgres') {
    const copy = `set search_path to tranche; copy (${TRADES_BY_HAND}) to stdout (format csv)`
    return { name: 'psql, copy', argv: ['exec psql -qX "$1" -c "$2" > by-hand.csv', 'sh', database, copy] }
  }
  if (!isInstalled('sqlite3')) return null
  const script = 'exec sqlite3 -csv "$1" "$2" > by-hand.csv'
  return { name: 'sqlite3 -csv', argv: [script, 'sh', database, TRADES_BY_HAND] }
}

// Every page of a month's users over HTTP: a page costs the same at the start and at the end.

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

// What serve holds in memory once it has answered everything that the other rows ask of it.

const CONNECTIONS = 64
const POLLS = 20

export const memory: Row = {
  name: 'memory',
  what: `resident memory of serve after reads, confirmations and polls, ${CONNECTIONS} connections`,
  main: 'resident_mib',
  ratios: [
    {
      name: 'memory to h3',
      better: 'less',
      isSteady: true,
      of: (seen) => seen('ours', 'resident_mib') / seen('h3', 'resident_mib'),
    },
  ],
  goals: [{ figure: 'resident_mib', atMost: 150 }],

  async prepare(stage, scale) {
    const calls = scale.pick({ quick: 3_000, full: 100_000 })
    const layout = { users: 1000, plans: calls, limits: 'alike', executions: 'sent' } as const
    const load = await startLoad(stage)
    const everything = async (server: Server, key: string, ids: string): Promise<Figures> => {
      const headers = { authorization: `Bearer ${key}` }
      const get = (path: string) => ({ connections: CONNECTIONS, method: 'GET' as const, path, headers })
      await load(server, { ...get('/partner/v1/me'), calls })
      await load(server, confirmations(key, ids, CONNECTIONS)(calls, 0))
      await load(server, { ...get('/partner/v1/executions/due'), connections: 1, calls: POLLS })
      return { resident_mib: residentMib(server.pid) }
    }
    const named = counted(calls)
    let ids = ''
    const contestants = await ours(scale, async (on) => {
      const { database, key } = await on.ofPlans(stage, { name: 'template', ...layout })
      const own = await writeIds(stage, on, database)
      ids = own
      return async () => {
        const served = await serve(stage, await on.copyOf(database, 'ours'))
        const figures = await everything(served, key, own)
        const peak = peakMib(served.pid)
        await served.end()
        return { ...figures, peak_mib: peak }
      }
    })
    const h3 = async () => everything(await startBare(stage, 'h3'), '', ids)
    return {
      on: `${named} reads, ${named} confirmations, ${POLLS} polls`,
      contestants: [...contestants, { name: 'h3', role: 'floor', take: h3 }],
    }
  },
}
