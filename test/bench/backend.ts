// What rows are measured on: a file, or a server. Each makes databases with the program's own migrations, fills them by
// SQL, and copies one for every turn that uses one up.

import type { Environment } from '../../src/core/partner.ts'
import type { Layout, Trades, Year } from '../support/large-database.ts'
import type { Figures, Stage } from './row.ts'

export type StoreName = 'file' | 'postgres'

/** `database` is what --db takes. */
export type Place = { database: string; tenantId: number; key: string }
export type Named = { name: string }
/** What each of them says of the tenant of the place itself. */
export type Plans = Omit<Layout, 'tenantId' | 'now'>

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

export type Commits = {
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
