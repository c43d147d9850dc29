// The sample partners of docs/examples in a folder of their own, on the real service, and the books of both sides.

import assert from 'node:assert/strict'
import { cpSync, existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
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
    language: 'JavaScript',
    folder: 'javascript',
    command: [process.execPath, 'partner.mjs'],
    onDebian: '/usr/bin/node',
    main: 'partner.mjs',
    venue: 'paper-venue.mjs',
    lostAnswer: ['return /** @type {Placed} */ (await this.find(key))', "throw new Error('no answer')"],
    journal: (environment: string) => `journal-${environment}`,
    book: (environment: string) => `paper-venue-${environment}.jsonl`,
  },
  {
    language: 'Python',
    folder: 'python',
    command: [PYTHON, 'partner.py'],
    onDebian: '/usr/bin/python3',
    main: 'partner.py',
    venue: 'paper_venue.py',
    lostAnswer: ['return self.find(key)', 'raise OSError("no answer")'],
    journal: (environment: string) => `journal-${environment}.db`,
    book: (environment: string) => `paper-venue-${environment}.db`,
  },
] as const
export type Sample = (typeof SAMPLES)[number]

/** The contract's retry intervals, and those of a partner in a hurry. */
const WAITS_S = [1, 2, 5, 10, 30, 60]
export const HURRIED_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3]

export type Stage = {
  sample: Sample
  service: Service
  front: Front
  folder: string
  /** Starts the partner as its reader would, except for the lengths of its waits. */
  launch: (env?: Record<string, string>) => Started
}

/** `debian`: the root of a Debian, whose own Node.js or Python runs the partner, instead of the machine's. */
export async function setStage(t: TestContext, sample: Sample, debian?: string): Promise<Stage> {
  const folder = temporaryFolder(t)
  const ours = (path: string) => !path.includes('__pycache__')
  cpSync(join(EXAMPLES, sample.folder), folder, { recursive: true, filter: ours })
  rewrite(join(folder, sample.main), HURRY)
  const service = await startService(t)
  const front = await startFront(t, service.url)
  const [file, main] = sample.command
  const program =
    debian === undefined ? ([file, main] as const) : inside(debian, folder, sample.onDebian, main)
  return {
    sample,
    service,
    front,
    folder,
    launch: (more = {}) =>
      start(t, [], {
        cwd: folder,
        program,
        env: { PATH: process.env.PATH, TRANCHE_URL: front.url, KEY: service.key, ...more },
      }),
  }
}

/** A program in a folder, with all other files those of the Debian; killing its first process kills it. */
const inside = (debian: string, folder: string, program: string, argument: string) =>
  [
    ...(['unshare', '--mount', 'sh', '-ec'] as const),
    'mount --rbind /dev "$1/dev"; mount --bind "$2" "$1/mnt"; exec chroot "$1" sh -c \'cd /mnt; exec "$@"\' - "$3" "$4"',
    ...(['-', debian, folder, program, argument] as const),
  ] as const

/** Intervals short enough for a test. The poll keeps its minute, so that only a wake-up brings the next one. */
export const HURRY = [
  [`WAITS_S = [${WAITS_S.join(', ')}]\n`, `WAITS_S = [${HURRIED_S.join(', ')}]\n`],
  ['OPEN_S = 60\n', 'OPEN_S = 0.2\n'],
  ['CHECK_S = 1\n', 'CHECK_S = 0.01\n'],
] as const
/** Long enough for a busy machine: an answer nobody waits for leases its instructions all the same. */
export const PATIENCE = ['TIMEOUT_S = 30\n', 'TIMEOUT_S = 5\n'] as const

/** Replaces texts that a program must have exactly once. */
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

/** An order of the paper venue, with the number of its requests. */
type Placed = Entry & { key: string; asked: number }

/** The orders in a paper venue's file, by their keys: the content tells which of the two kinds of files it is. */
export function ordersIn(file: string): Placed[] {
  const sql = 'select id as "order", key, asked, status, usd, btc from orders order by key'
  if (!existsSync(file) || readFileSync(file, 'latin1').startsWith('SQLite')) return rows<Placed>(file, sql)
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1)
  const last = new Map(lines.map((line) => JSON.parse(line)).map((order) => [order.key, order]))
  return [...last.values()]
    .map(({ id: order, key, asked, status, usd, btc }) => ({ order, key, asked, status, usd, btc }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
}

/** Every order of the paper venue, by its id. */
export const ordersOf = ({ folder, sample }: Stage): Placed[] =>
  ordersIn(join(folder, sample.book('test'))).sort((a, b) => (a.order < b.order ? -1 : 1))

type Line = { execution_id: string; order_key: string; report: string | null; answer: string | null }

/** The journal's purchases: in a database, or in a folder, where the subfolder tells the answer. */
export function journalOf({ folder, sample }: Stage): Line[] {
  const journal = join(folder, sample.journal('test'))
  if (sample.language === 'Python') return rows(journal, 'select * from purchases order by execution_id')
  const read = (file: string): Line => {
    const { report = null, refusal = null, ...purchase } = JSON.parse(readFileSync(file, 'utf8'))
    const state = basename(dirname(file))
    return { ...purchase, report, answer: state === 'open' ? null : state === 'refused' ? refusal : state }
  }
  for (;;) {
    try {
      const lines = globSync(join(journal, '*/*.json')).map(read)
      return lines.sort((a, b) => (a.execution_id < b.execution_id ? -1 : 1))
    } catch (error) {
      // The partner has just moved one of them.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
}

const LEDGER = `partner_order_id as "order", status, printf('%.2f', coalesce(usd_amount, 0) / 1e8) as usd,
  printf('%.8f', coalesce(btc_amount, 0) / 1e8) as btc`

/** The recorded trades of the service, and the refused reports that it stored. */
export const tradesOf = ({ service }: Stage) =>
  rows<Entry>(service.file, `select ${LEDGER} from trades order by partner_order_id`)
export const keptOf = ({ service }: Stage) =>
  rows<Entry>(service.file, `select ${LEDGER} from late_reports order by partner_order_id`)

/** The orders that the service must know: all but those that bought nothing for instructions cancelled meanwhile. */
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

/** Each look opens both books: constant polling would cost more than the work itself. */
const LOOK_MS = 40

export async function until(holds: () => boolean, what: () => string, withinMs = 30_000): Promise<void> {
  for (const end = performance.now() + withinMs; !holds(); await pause(LOOK_MS))
    assert.ok(performance.now() < end, `not within ${withinMs} ms: ${what()}`)
}

/** Nothing was ordered twice, and the two books agree order by order. */
export function assertSameBooks(stage: Stage): void {
  assert.ok(!ordersOf(stage).some(({ asked }) => asked !== 1), 'no order was placed twice')
  const booked = ordersToKnow(stage).map(({ order, status, usd, btc }) => ({ order, status, usd, btc }))
  const recorded = [...tradesOf(stage), ...keptOf(stage)].sort((a, b) => (a.order < b.order ? -1 : 1))
  assert.deepEqual(recorded, booked, 'what the venue did is what the service knows')
  assert.ok(booked.some(({ status }) => status === 'filled'))
}
