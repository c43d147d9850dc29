// A database on a server that holds still while it is copied: one snapshot of it, with all writers kept out where it is
// to be sealed.

import type { Client } from 'pg'
import type { Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { shownAddress } from '../../address.ts'
import type { FileHistory, HeldSource, HoldOptions, Rows } from '../../copying/ends.ts'
import { selectAll } from '../../copying/tables.ts'
import { instant } from '../../rows/instant.ts'
import { openStore } from '../open.ts'
import { commitAlone, waitForCommitted } from '../server/commit.ts'
import { explained, explaining } from '../server/error-words.ts'
import { LOCK } from '../server/locks.ts'
import { openAlone } from '../server/pool.ts'
import { takeCopyLock } from './copy-lock.ts'
import { copyOut } from './protocol.ts'
import { sealOf, setSeal, tablesOf } from './seal.ts'

/** Throws database_not_found, schema_newer, database_locked, database_in_use, storage_failed. */
export async function holdServer(
  url: string,
  clock: (() => Instant) | null,
  { fromWriters }: HoldOptions,
): Promise<HeldSource> {
  const server = shownAddress(url)
  const store = await openStore(url, { clock, create: false })
  let client: Client
  try {
    client = await explaining(server, () => openAlone(url))
  } catch (error) {
    await store.close()
    throw error
  }
  const release = async () => {
    // The end of its session undoes what was not committed, and gives its locks back.
    await client.end().catch(() => {})
    await store.close()
  }
  try {
    await explaining(server, async () => {
      await takeCopyLock(client, { server, alone: false })
      await (fromWriters ? keepWritersOut(client) : beginSnapshot(client))
      await refuseHalfHeld(client, server)
    })
  } catch (error) {
    await release()
    throw error
  }
  return {
    ...rowsOn(client, server),
    playedIn: [],
    fileHistory: () => explaining(server, () => historyOf(client)),
    seal: () => explaining(server, () => sealOf(client)),
    setSeal: (seal) =>
      explaining(server, async () => {
        await setSeal(client, seal)
        await commitAlone(client)
      }),
    keepSeal: () =>
      explaining(server, async () => {
        await commitAlone(client)
        await waitForCommitted(client)
      }),
    store,
    release,
  }
}

const BEGIN = 'begin isolation level repeatable read'

async function beginSnapshot(client: Client): Promise<void> {
  await client.query(`${BEGIN} read only`)
  await client.query('select 1')
}

/**
 * First the gate: every writer of ours is then done or waits, so none can hold rows and wait for a table that we hold.
 * Then the tables themselves, which keeps out all other writers. A transaction may lock tables before it takes its
 * snapshot.
 */
async function keepWritersOut(client: Client): Promise<void> {
  await client.query(`select pg_advisory_lock(${LOCK.all}, 0)`)
  const tables = await tablesOf(client)
  await client.query(BEGIN)
  await client.query(`lock table ${tables.join(', ')} in share row exclusive mode`)
  await client.query('select 1')
}

/** Schedules that are behind would stay behind in the copy. */
async function refuseHalfHeld(client: Client, server: string): Promise<void> {
  const { rows } = await client.query(
    'select partner_slug from schedules_behind order by partner_slug limit 1',
  )
  const [behind] = rows as { partner_slug: string }[]
  if (!behind) return
  throw new Problem(
    'database_in_use',
    `${server}: a change of partner ${behind.partner_slug} has not reached all of its plans yet: wait for it, or run a tick first.`,
  )
}

async function historyOf(client: Client): Promise<FileHistory> {
  const { rows } = await client.query(
    `select name, sha256, applied_at, (select min(applied_at) from migrations) as begun_at from file_migrations
     union all select null, null, null, min(applied_at) from migrations order by 1`,
  )
  const found = rows as { name: string | null; sha256: string; applied_at: bigint; begun_at: bigint }[]
  return {
    begunAt: instant(found.at(-1)?.begun_at ?? 0n),
    migrations: found.flatMap(({ name, sha256, applied_at }) =>
      name === null ? [] : [{ name, sha256, appliedAt: instant(applied_at) }],
    ),
  }
}

/** The client takes only one query at a time. */
export const rowsOn = (client: Client, server: string): Rows => ({
  count: ({ name }) =>
    explaining(server, async () => {
      const { rows } = await client.query(`select count(*) as n from ${name}`)
      return Number((rows as { n: bigint }[])[0]?.n)
    }),
  async *blocks(table) {
    try {
      yield* copyOut(client, selectAll(table), table)
    } catch (error) {
      throw explained(error, server)
    }
  },
})
