// What rows are measured on: a file, or a server. Each makes databases with the program's own migrations, fills them by
// SQL, and copies one for every turn that uses one up.

import { copyFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment } from '../../src/core/partner.ts'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { type Database, openFile } from '../../src/store/sqlite/file/connection.ts'
import { BESIDE, ownerNote, walBytes } from '../../src/store/sqlite/file/files.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import {
  addPlans,
  addTrades,
  addUsers,
  addYear,
  fill,
  type Layout,
  type Trades,
  type Year,
} from '../support/large-database.ts'
import { AUDIT } from '../support/service.ts'
import { startRaw } from './helper.ts'
import { known } from './program.ts'
import { type Contestant, type Figures, percentile, type Scale, type Stage } from './row.ts'

export type StoreName = 'file' | 'postgres'

/** `database` is what --db takes. */
export type Place = { database: string; tenantId: number; key: string }
type Named = { name: string }
/** What each of them says of the tenant of the place itself. */
type Plans = Omit<Layout, 'tenantId' | 'now'>

/** A piece of work by hand: prepared statements on the product's own schema, as durable as ours. */
export type RawJob = {
  work: 'confirmations' | 'pass' | 'plans' | 'polls' | 'rows' | 'trades'
  /** A migrated database that nobody else uses. */
  database: string
  /**
   * How many transactions' worth of it: confirmations, plans, polls; of a pass, plans; of an export, trades; of `rows`,
   * tables.
   */
  count: number
  /** How many of them share a commit. */
  perCommit: number
  /** On a server: how many transactions are under way at once, each on a connection of its own; else one. */
  connections?: number
}
export type RawDone = { ms: number; cpuMs: number }
export type Raw = (job: RawJob) => Promise<Figures>

type Commits = {
  end: () => Promise<void>
  /** The milliseconds between two commits, at this share of them. */
  between: (share: number) => number
}

export type Backend = {
  store: StoreName
  /** A migrated database with the partner "acme" and a key of one of its environments. */
  empty: (stage: Stage, of?: Partial<Named> & { environment?: Environment }) => Promise<Place>
  /** The same with linked users u1, u2, ... */
  ofUsers: (stage: Stage, of: Named & Pick<Layout, 'users'> & { environment?: Environment }) => Promise<Place>
  /** The same with plans, whose windows began just now. */
  ofPlans: (stage: Stage, of: Named & Plans) => Promise<Place>
  ofYear: (stage: Stage, of: Named & Omit<Year, 'tenantId'>) => Promise<Place>
  ofTrades: (stage: Stage, of: Named & Omit<Trades, 'tenantId'>) => Promise<Place>
  /** Puts a fresh copy of a database that nobody uses into the place of the last one of that name. */
  copyOf: (database: string, name: string) => Promise<string>
  /** The ids of the executions that are out, in their order. */
  sentIds: (database: string) => Promise<string[]>
  /** Puts back what polls have taken. */
  takeBack: (database: string) => Promise<void>
  /** Starts the process that works by hand. */
  raw: (stage: Stage) => Promise<Raw>
  watchCommits: (database: string) => Promise<Commits>
  /** With what lies beside it. */
  sizeMib: (database: string) => Promise<number>
  /** Bytes that were ever written to the log of the server; not a number for a file. */
  walBytes: () => Promise<number>
}

// The partner whose service is measured.

/** Adds the partner "acme" to a store that is empty, with a key of one of its environments. */
export async function withKey(
  store: Pick<Store, 'addPartner' | 'addKey' | 'findTenant'>,
  environment: Environment,
): Promise<Omit<Place, 'database'>> {
  await store.addPartner({ partnerSlug: 'acme', name: 'Acme' }, AUDIT)
  const tenant = await store.findTenant('acme', environment)
  if (!tenant) throw new Error(`there is no ${environment} environment`)
  const { record, secret } = issueKey({ tenant, label: null, lifetimeMs: null }, machine)
  await store.addKey(record, AUDIT)
  return { tenantId: tenant.tenantId, key: secret }
}

// Rows measured on a file of SQLite.

const MIB = 2 ** 20

const empty: Backend['empty'] = async ({ folder }, { name = 'tranche', environment = 'live' } = {}) => {
  const database = join(folder, `${name}.db`)
  const store = await openStore(database, { clock: machine.clock, create: true })
  try {
    return { database, ...(await withKey(store, environment)) }
  } finally {
    store.close()
  }
}

async function filled(
  stage: Stage,
  of: Parameters<Backend['empty']>[1],
  add: (db: Database, tenantId: number) => void,
): Promise<Place> {
  const place = await empty(stage, of)
  fill(place.database, (db) => add(db, place.tenantId))
  settle(place.database)
  return place
}

/** Leaves everything in the database file and no log beside it. */
function settle(file: string): void {
  const db = openFile(file)
  db.pragma('wal_checkpoint(truncate)')
  db.close()
}

export const onFile: Backend = {
  store: 'file',
  empty,
  ofUsers: (stage, { users, ...of }) =>
    filled(stage, of, (db, tenantId) => addUsers(db, { tenantId, users })),
  ofPlans: (stage, { name, ...layout }) =>
    filled(stage, { name }, (db, tenantId) => addPlans(db, { ...layout, tenantId, now: machine.clock() })),
  ofTrades: (stage, { name, ...trades }) =>
    filled(stage, { name }, (db, tenantId) => addTrades(db, { ...trades, tenantId })),

  ofYear: (stage, { name, ...year }) =>
    filled(stage, { name }, (db, tenantId) => addYear(db, { ...year, tenantId })),

  async copyOf(file, name) {
    const copy = join(file, '..', `${name}.db`)
    for (const old of [copy, ...BESIDE.map((suffix) => copy + suffix), ownerNote(copy)])
      rmSync(old, { force: true })
    copyFileSync(file, copy)
    return copy
  },

  async sentIds(file) {
    const db = openFile(file)
    const sent = db
      .prepare<[], string>(`select execution_id from executions where status = 'sent' order by execution_id`)
      .pluck()
      .all()
    db.close()
    return sent
  },

  async takeBack(file) {
    const db = openFile(file)
    db.pragma('busy_timeout = 5000')
    db.prepare(
      `update executions set status = 'pending', delivered_count = 0, lease_expires_at = null where status = 'sent'`,
    ).run()
    db.close()
  },

  raw: (stage) => startRaw(stage, 'file'),
  watchCommits: async (file) => watchCommits(file),
  sizeMib: async (file) => (statSync(file).size + walBytes(file)) / MIB,
  walBytes: async () => Number.NaN,
}

const LOOK_MS = 1

/**
 * How long a program goes between two commits, seen from outside: while it works, others wait for its lock. Asks a
 * database of its own connection, every millisecond, whether another one has committed.
 */
function watchCommits(file: string): Commits {
  const db = openFile(file)
  const look = (): unknown => db.pragma('data_version', { simple: true })
  const gaps: number[] = []
  let version = look()
  let at: number | null = null
  const timer = setInterval(() => {
    const seen = look()
    if (seen === version) return
    version = seen
    const now = performance.now()
    if (at !== null) gaps.push(now - at)
    at = now
  }, LOOK_MS)
  return {
    async end() {
      clearInterval(timer)
      db.close()
    },
    between: (share) => percentile(gaps, share),
  }
}

// Ours as a contestant: on what the run measures, and on a server also on a file beside it.

export const ON_FILE = 'ours, on a file'

/** `take` makes everything that is needed for its turns. */
export async function ours(
  { on }: Pick<Scale, 'on'>,
  take: (on: Backend) => Promise<Contestant['take']>,
): Promise<Contestant[]> {
  const own: Contestant = { name: 'ours', role: 'ours', take: await take(on) }
  return on.store === 'file' ? [own] : [own, { name: ON_FILE, role: 'ours', take: await take(onFile) }]
}

/** A turn of so many items, with what a server has written to its log meanwhile. */
export async function withWal(on: Backend, items: number, turn: () => Promise<Figures>): Promise<Figures> {
  const before = await on.walBytes()
  const figures = await turn()
  return { ...figures, ...known({ wal_bytes: ((await on.walBytes()) - before) / items }) }
}
