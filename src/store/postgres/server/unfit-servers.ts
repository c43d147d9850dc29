// Which servers are refused, because they would not keep what they are given, or are not what they seem.

import { Problem } from '../../../core/problem.ts'

export const SHARED_SESSIONS = {
  what: 'is behind a pool that gives one session to several connections',
  remedy: 'tranche needs one in session mode (in PgBouncer, pool_mode = session)',
}

const sharesSessions = (): string => `${SHARED_SESSIONS.what}: ${SHARED_SESSIONS.remedy}`

export const sharedSessions = (server: string): Problem => unfit(server, sharesSessions())

const unfit = (server: string, why: string): Problem => new Problem('storage_failed', `${server} ${why}.`)

/** What a server says of itself, and of the session. */
export type Seen = {
  standby: boolean
  commits: string
  version: bigint
  encoding: string
  replication: string
  mark: string
  open: boolean
}

export function refuseUnfit(seen: Seen, server: string): void {
  const why = UNFIT.find(({ is }) => is(seen))
  if (why) throw unfit(server, why.words(seen))
}

const UNFIT: { is: (seen: Seen) => boolean; words: (seen: Seen) => string }[] = [
  {
    is: ({ standby }) => standby,
    words: () => 'is a standby, which takes no writes: name the primary',
  },
  {
    is: ({ commits }) => commits === 'off',
    words: () => 'answers before a commit is on disk: set its synchronous_commit to on',
  },
  {
    is: ({ version }) => version < 150_000n,
    words: () => 'is older than PostgreSQL 15: upgrade it',
  },
  {
    is: ({ encoding }) => encoding !== 'UTF8',
    words: ({ encoding }) =>
      `stores its text as ${encoding}, not as UTF-8: create the database with createdb --encoding UTF8 --template template0`,
  },
  {
    is: ({ replication }) => replication !== 'origin',
    words: () => 'checks no references and no seal for this user: set its session_replication_role to origin',
  },
  {
    is: ({ mark }) => mark !== '',
    words: sharesSessions,
  },
  {
    is: ({ open }) => !open,
    words: () =>
      'has a schema tranche that this user may not use: connect as its owner, or let the owner GRANT USAGE ON SCHEMA tranche',
  },
]
