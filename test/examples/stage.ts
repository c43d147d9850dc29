// The sample partners of docs/examples in a folder of their own, on the real service, and the books of both sides.

import assert from 'node:assert/strict'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { temporaryFolder } from '../support/database.ts'
import { PYTHON, type Started, start } from '../support/process.ts'
import { type Service, startService } from '../support/service.ts'
import { type Front, startFront } from './front.ts'

export const EXAMPLES = join(import.meta.dirname, '../../docs/examples')

export const SAMPLES = [
  {
    language: 'TypeScript',
    folder: 'typescript',
    command: [process.execPath, 'partner.ts'],
    main: 'integration.mts',
    venue: 'paper-venue.mts',
    lostAnswer: ['return (await find(key)) as Order', "throw new Error('no answer')"],
  },
  {
    language: 'Python',
    folder: 'python',
    command: [PYTHON, 'partner.py'],
    main: 'partner.py',
    venue: 'paper_venue.py',
    lostAnswer: ['return self.find(key)', 'raise OSError("no answer")'],
  },
] as const
export type Sample = (typeof SAMPLES)[number]

/** The contract's waits, and those of a partner in a hurry. */
const WAITS_S = [1, 2, 5, 10, 30, 60]
export const HURRIED_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3]

export type Stage = {
  service: Service
  front: Front
  folder: string
  /** Starts the partner as its reader would, but for the lengths of its waits. */
  launch: (env?: Record<string, string>) => Started
}

export async function setStage(t: TestContext, { folder: from, command, main }: Sample): Promise<Stage> {
  const folder = temporaryFolder(t)
  cpSync(join(EXAMPLES, from), folder, { recursive: true, filter: (path) => !path.includes('__pycache__') })
  rewrite(join(folder, main), HURRY)
  const service = await startService(t)
  const front = await startFront(t, service.url)
  const [file, ...first] = command
  return {
    service,
    front,
    folder,
    launch: (more = {}) =>
      start(t, [], {
        cwd: folder,
        program: [file, ...first],
        env: { PATH: process.env.PATH, TRANCHE_URL: front.url, KEY: service.key, ...more },
      }),
  }
}

/** Waits that a test can wait for. The poll stays at its minute, so that nothing but a wake-up brings the next one. */
export const HURRY = [
  [`WAITS_S = [${WAITS_S.join(', ')}]\n`, `WAITS_S = [${HURRIED_S.join(', ')}]\n`],
  ['OPEN_S = 60\n', 'OPEN_S = 0.2\n'],
  ['CHECK_S = 1\n', 'CHECK_S = 0.01\n'],
] as const
/** Long enough for any answer of a busy machine, which is leased to a partner that did not wait for it. */
export const PATIENCE = ['TIMEOUT_S = 30\n', 'TIMEOUT_S = 5\n'] as const

/** Replaces in a program what it must have exactly once. */
export function rewrite(file: string, changes: readonly (readonly [there: string, instead: string])[]): void {
  const program = changes.reduce(
    (text, [there, instead]) => {
      assert.equal(text.split(there).length, 2, `${file} has ${there}`)
      return text.replace(there, instead)
    },
    readFileSync(file, 'utf8'),
  )
  writeFileSync(file, program)
}

/** An order or a trade, with amounts in units of 1e-8 that SQLite adds up without a rounding. */
export type Entry = { order: string; status: string; usd: string; btc: string }

const rows = <T>(file: string, sql: string): T[] => {
  if (!existsSync(file)) return []
  const db = new SQLite(file, { readonly: true })
  try {
    return db.prepare<[], T>(sql).all()
  } finally {
    db.close()
  }
}

/** Every order of the paper venue, and how often each was asked for. */
export const ordersOf = ({ folder }: Stage) =>
  rows<Entry & { asked: number; key: string }>(
    join(folder, 'paper-venue-test.db'),
    'select id as "order", status, usd, btc, asked, key from orders order by id',
  )

/** The orders in a paper venue's file, by their keys. */
export const ordersIn = (file: string) =>
  rows<{ id: string; key: string; asked: number; usd: string }>(
    file,
    'select id, key, asked, usd from orders order by key',
  )

export const journalOf = ({ folder }: Stage) =>
  rows<{ execution_id: string; order_key: string; report: string | null; answer: string | null }>(
    join(folder, 'journal-test.db'),
    'select * from purchases order by execution_id',
  )

const LEDGER = `partner_order_id as "order", status, printf('%.2f', coalesce(usd_amount, 0) / 1e8) as usd,
  printf('%.8f', coalesce(btc_amount, 0) / 1e8) as btc`

/** What the service has recorded, and the reports that it refused and kept. */
export const tradesOf = ({ service }: Stage) =>
  rows<Entry>(service.file, `select ${LEDGER} from trades order by partner_order_id`)
export const keptOf = ({ service }: Stage) =>
  rows<Entry>(service.file, `select ${LEDGER} from late_reports order by partner_order_id`)

/** The orders that the service has to know of: all but those that bought nothing for what was cancelled meanwhile. */
export function ordersToKnow(stage: Stage) {
  const refused = new Set(
    journalOf(stage)
      .filter(({ answer }) => answer?.startsWith('409 ') && answer.includes('nothing was bought'))
      .map(({ order_key: key }) => key),
  )
  return ordersOf(stage).filter(({ key, status }) => status !== 'failed' || !refused.has(key))
}

/** How many executions nobody has confirmed or cancelled. */
export const openOf = ({ service }: Stage): number =>
  rows<unknown>(service.file, "select 1 from executions where status in ('pending', 'sent')").length

/** A look opens both books: looking all the time would cost more than what is looked at. */
const LOOK_MS = 40

export async function until(holds: () => boolean, what: () => string, withinMs = 30_000): Promise<void> {
  for (const end = performance.now() + withinMs; !holds(); await pause(LOOK_MS))
    assert.ok(performance.now() < end, `not within ${withinMs} ms: ${what()}`)
}

/** Nothing was asked for twice, and the two books agree order by order. */
export function assertSameBooks(stage: Stage): void {
  assert.deepEqual(
    ordersOf(stage).filter(({ asked }) => asked !== 1),
    [],
    'no order was placed twice',
  )
  const booked = ordersToKnow(stage).map(({ asked: _, key: __, ...order }) => order)
  const recorded = [...tradesOf(stage), ...keptOf(stage)].sort((a, b) => (a.order < b.order ? -1 : 1))
  assert.deepEqual(recorded, booked, 'what the venue did is what the service knows')
  assert.ok(booked.some(({ status }) => status === 'filled'))
}
