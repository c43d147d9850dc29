// A database on a server, locked while it is copied: one snapshot of it, with all writers kept out where it is to be
// frozen as moved.

import { pipeline } from 'node:stream/promises'
import type { Client } from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { type Frozen, unsealed } from '../../core/frozen.ts'
import { Problem } from '../../core/problem.ts'
import { formatInstant, type Instant } from '../../core/time.ts'
import { shownAddress } from '../address.ts'
import {
  type Block,
  type FileHistory,
  type FrozenAtBirth,
  frozenAt,
  type HeldSource,
  type HoldOptions,
  type NewTarget,
  type Rows,
  selectAll,
  type TargetOptions,
  withOurNumbers,
} from '../copy-interface.ts'
import type { Erasure } from '../erasures.ts'
import { putFrozen as putFrozenIn, takenBack } from '../frozen.ts'
import { isPending } from '../migrations.ts'
import { type AskBoth, readReplaced, type SinceCopy } from '../replaced.ts'
import { instant } from '../statement.ts'
import type { AuditEntry } from '../store.ts'
import type { Table } from '../tables.ts'
import { rememberOnServer } from './accounts.ts'
import { within } from './driver.ts'
import { openMade, openStore } from './open.ts'
import { commitAlone, waitForCommitted } from './server/commit.ts'
import { explained, explaining } from './server/errors.ts'
import { isRowsFault } from './server/failures.ts'
import { LOCK, takeFromUsers } from './server/locks.ts'
import { bringUp, frozenIn, isEmpty, isThere, migrationStates, SCHEMA, serverTime } from './server/migrate.ts'
import { pipelineOn } from './server/pipeline.ts'
import { onServer, openAlone } from './server/pool.ts'
import { firstColumn } from './server/session.ts'

/** Throws database_not_found, schema_newer, database_locked, database_in_use, storage_failed. */
export async function holdServer(
  url: string,
  clock: (() => Instant) | null,
  { fromWriters }: HoldOptions,
): Promise<HeldSource> {
  const server = shownAddress(url)
  await using opened = new AsyncDisposableStack()
  const store = await openStore(url, { clock, create: false })
  opened.defer(() => store.close())
  const client = await explaining(server, () => openAlone(url))
  // The end of its session rolls back and releases its locks.
  opened.defer(() => client.end().catch(() => {}))
  await explaining(server, async () => {
    await takeCopyLock(client, { server, alone: false })
    await (fromWriters ? keepWritersOut(client) : beginSnapshot(client))
    await refuseHalfHeld(client, server)
  })
  const held = opened.move()
  return {
    ...rowsOn(client, server),
    playedIn: [],
    fileHistory: () => explaining(server, () => historyOf(client)),
    frozen: () => explaining(server, () => frozenIn(client)),
    freeze: (frozen, audit) =>
      explaining(server, async () => {
        await putFrozen(client, frozen, audit)
        await commitAlone(client)
      }),
    awaitDurable: () =>
      explaining(server, async () => {
        await commitAlone(client)
        await waitForCommitted(client)
      }),
    store,
    release: () => held.disposeAsync(),
  }
}

const BEGIN = 'begin isolation level repeatable read'

async function beginSnapshot(client: Client): Promise<void> {
  await client.query(`${BEGIN} read only`)
  await client.query('select 1')
}

/**
 * First the gate: every writer of ours has then finished or waits, so none can hold rows and wait for a table that we
 * hold. Then the tables, which keeps out all other writers. A transaction may lock tables before it takes its snapshot.
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
  const [behind] = await firstColumn<string>(client, 'select min(partner_slug) from schedules_behind')
  if (!behind) return
  throw new Problem(
    'database_in_use',
    `${server}: a change of partner ${behind} has not reached all of its plans yet: wait for it, or run a tick first.`,
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
const rowsOn = (client: Client, server: string): Rows => ({
  count: ({ name }) =>
    explaining(server, async () => {
      const [count] = await firstColumn<bigint>(client, `select count(*) from ${name}`)
      return Number(count)
    }),
  async *blocks(table) {
    try {
      yield* copyOut(client, selectAll(table), table)
    } catch (error) {
      throw explained(error, server)
    }
  },
})

// A database under construction on a server: in a schema of another name, which is renamed once it is verified. It is
// filled in one transaction, so a crash leaves nothing of it, or all of it under a name that only the next copy reads.

const MAKING = 'tranche_copying'

/** Throws database_exists where there is one of ours, database_in_use where it is being copied, from or to. */
export async function newOnServer(
  url: string,
  clock: (() => Instant) | null,
  { now, replace }: TargetOptions,
): Promise<NewTarget> {
  const server = shownAddress(url)
  const client = await explaining(server, () => openAlone(url, { schema: MAKING }))
  let isPublished = false
  const close = async () => {
    await client.query('rollback').catch(() => {})
    if (!isPublished) await client.query(`drop schema if exists ${MAKING} cascade`).catch(() => {})
    await client.end().catch(() => {})
  }
  const beginning = explaining(server, () => begin(client, { server, now, replace }))
  const putBack = await beginning.catch(async (error) => {
    await client.end().catch(() => {})
    throw error
  })
  return {
    ...rowsOn(client, server),
    load: (table, blocks) =>
      explaining(server, async () => {
        try {
          await copyIn(client, table, blocks)
        } catch (error) {
          if (!isRowsFault(error)) throw error
          const { message } = error as Error
          throw new Problem('bad_file', `${server} cannot keep a row of ${table.name} (${message}).`)
        }
      }),
    settle: ({ fileHistory }) =>
      explaining(server, async () => {
        for (const statement of putBack) await client.query(statement)
        await countOn(client)
        for (const { name, sha256, appliedAt } of fileHistory.migrations)
          await client.query('insert into file_migrations values ($1, $2, $3)', [name, sha256, appliedAt])
        await commitAlone(client)
        // The server would do so by itself.
        await client.query('analyze')
      }),
    openStore: async () => openMade(url, MAKING, clock),
    readReplaced: () =>
      explaining(server, async () => {
        // Until it is replaced, an operator may freeze nothing there without the copy learning of it.
        await client.query('begin')
        return readOthers(client)
      }),
    publish: (frozen) =>
      explaining(server, async () => {
        const replaced = await takeName(client, { server, now, replace, clock, frozen })
        isPublished = true
        return { replaced, bytes: null }
      }),
    close,
  }
}

type Where = { server: string; now: Instant; replace: boolean }
type Naming = Where & { clock: (() => Instant) | null; frozen: FrozenAtBirth | null }

/** Begins the transaction that fills the tables. Returns the statements to run once their rows are there. */
async function begin(client: Client, { server, now, replace }: Where): Promise<string[]> {
  if (!replace && !(await isEmpty(client, SCHEMA))) throw taken(server)
  await takeCopyLock(client, { server, alone: true })
  // Checked again when the name is taken. But a copy takes long, and most sessions that are there now will stay.
  await takeFromUsers(client, server)
  // The schema of a copy that was killed after all its rows were there. If this is undone, the next copy repeats it.
  await client.query(`drop schema if exists ${MAKING} cascade`)
  await client.query('begin')
  await bringUp(client, MAKING, now)
  await client.query('delete from tiers')
  return withoutIndexes(client)
}

const taken = (server: string): Problem =>
  new Problem(
    'database_exists',
    `${server} already has a schema ${SCHEMA} with tables in it, and a copy never replaces anything: name another database.`,
  )

/** Drops references and indexes but unique ones, and returns the statements that rebuild them from all rows at once. */
async function withoutIndexes(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ off: string; back: string }>(
    `select 'alter table ' || conrelid::regclass || ' drop constraint ' || quote_ident(conname) as off,
       'alter table ' || conrelid::regclass || ' add constraint ' || quote_ident(conname) || ' '
         || pg_get_constraintdef(oid) as back, 2 as turn, oid
     from pg_constraint where connamespace = current_schema()::regnamespace and contype = 'f'
     union all
     select 'drop index ' || i.indexrelid::regclass, pg_get_indexdef(i.indexrelid), 1, i.indexrelid
     from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = current_schema()::regnamespace and not i.indisunique
     order by turn, oid`,
  )
  for (const { off } of rows.toReversed()) await client.query(off)
  return rows.map(({ back }) => back)
}

/** Numbering continues after the highest number there is. */
async function countOn(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string; key: string }>(
    `select table_name::text as name, column_name::text as key from information_schema.columns
     where table_schema = current_schema() and is_identity = 'YES'`,
  )
  for (const { name, key } of rows)
    await client.query(
      `select setval(pg_get_serial_sequence('${name}', '${key}'), coalesce(max(${key}), 0) + 1, false) from ${name}`,
    )
}

/** Throws database_exists and database_in_use: the name then stays with the old database. */
async function takeName(
  client: Client,
  { server, now, replace, clock, frozen }: Naming,
): Promise<string | null> {
  // In a restore, the transaction that read the replaced database is still open.
  if (frozen?.kind !== 'restored') await client.query('begin')
  await client.query(`select pg_advisory_xact_lock(${LOCK.migrate}, 0)`)
  // A process that is still connected would continue in the new database with facts that it remembers of the old one.
  await takeFromUsers(client, server)
  let kept: string | null = null
  if (!(await isEmpty(client, SCHEMA))) {
    if (!replace) throw taken(server)
    kept = await freeName(client, `${SCHEMA}_replaced_${formatInstant(now).replaceAll(/\D/g, '')}`)
    await client.query(`alter schema ${SCHEMA} rename to ${kept}`)
  }
  if (frozen) {
    // An instant in the future would confirm months that are not over, so it is the server's, like that of every write.
    const at = clock?.() ?? (await serverTime(client))
    await putFrozen(client, frozenAt(at, frozen, kept))
  }
  // An empty schema was made for us. One that is not empty is somebody else's, and the statement fails.
  await client.query(`drop schema if exists ${SCHEMA}`)
  await client.query(`alter schema ${MAKING} rename to ${SCHEMA}`)
  await commitAlone(client)
  return kept
}

/** Compared with the connection's schema, with all writers kept out. Null where nothing is replaced. */
async function readOthers(client: Client): Promise<SinceCopy | null> {
  if (await isEmpty(client, SCHEMA)) return null
  const tables = await tablesOf(client, SCHEMA)
  await client.query(`lock table ${tables.map((name) => `${SCHEMA}.${name}`).join(', ')} in share mode`)
  const names = [SCHEMA, ...(await replacedBefore(client, SCHEMA))]
  return readReplaced(names.map((name) => ({ name, ask: askerOf(client, name) })))
}

const askerOf =
  (client: Client, schema: string): AskBoth =>
  async (sql) => {
    await client.query('savepoint asked')
    try {
      const { rows } = await client.query(sql.replaceAll('old.', `${schema}.`))
      return { rows, failure: null }
    } catch (error) {
      await client.query('rollback to savepoint asked')
      return { rows: [], failure: (error as Error).message }
    }
  }

/** A frozen database may itself have replaced one, and does not know all changes made there. */
async function replacedBefore(client: Client, schema: string): Promise<string[]> {
  const names = (await frozenIn(client, schema))?.replaced ?? []
  const kept = await firstColumn(client, 'select nspname::text from pg_namespace where nspname = any($1)', [
    names,
  ])
  return names.filter((name) => kept.includes(name))
}

/** The name itself, or the first free name that begins with it. */
async function freeName(client: Client, name: string): Promise<string> {
  for (let n = 1; ; n++) {
    const tried = n === 1 ? name : `${name}_${n}`
    const [isFree] = await firstColumn<boolean>(client, 'select to_regnamespace($1) is null', [tried])
    if (isFree) return tried
  }
}

// Copies a table out of the server as fast as the reader takes the lines, and into it as fast as the server does.

const LINE_BREAK = 10

/** All rows of a table in the order of its key. The client must not be used until all are read. */
async function* copyOut(client: Client, select: string, table: Table): AsyncGenerator<Block> {
  const lines = client.query(copyTo(`copy (${select}) to stdout`))
  let rest = Buffer.alloc(0)
  try {
    for await (const chunk of lines) {
      const read = Buffer.concat([rest, chunk as Buffer])
      const end = read.lastIndexOf(LINE_BREAK) + 1
      rest = read.subarray(end)
      const text = read.toString('utf8', 0, end)
      if (end > 0) yield { text: withOurNumbers(text, table), rows: text.split('\n').length - 1 }
    }
  } finally {
    // A server that is still sending hears nothing else, and its connection is useless now.
    if (!lines.readableEnded) await client.end()
  }
}

async function copyIn(client: Client, table: Table, blocks: AsyncIterable<Block>): Promise<void> {
  const names = table.columns.map(({ name }) => name)
  const into = client.query(copyFrom(`copy ${table.name} (${names.join(', ')}) from stdin`))
  await pipeline(async function* () {
    for await (const { text } of blocks) yield text
  }, into)
}

// Reads and changes from outside whether a database on a server is frozen.

const putFrozen = (client: Client, frozen: Frozen, audit: AuditEntry | null = null): Promise<void> =>
  within(pipelineOn(client, null), (tx) => putFrozenIn(tx, frozen, audit))

/** Null also where there is nothing of ours. */
export const seenFrozen = (url: string): Promise<Frozen | null> => onServer(url, (client) => frozenIn(client))

/** Throws usage for one that has not moved, database_in_use while it is copied, schema_newer, storage_failed. */
export const unseal = (
  url: string,
  { clock, audit }: { clock: (() => Instant) | null; audit: (moved: Frozen) => AuditEntry },
): Promise<Frozen> =>
  onServer(url, async (client) => {
    const isBehind = (await migrationStates(client)).some(isPending)
    // Otherwise a copy that is still unnamed could get its name afterwards, and two databases would take writes.
    await takeCopyLock(client, { server: shownAddress(url), alone: true })
    await client.query('begin')
    await client.query(`select pg_advisory_xact_lock(${LOCK.all}, 0)`)
    const moved = takenBack(await frozenIn(client), { name: shownAddress(url), isBehind })
    const entry = audit(moved)
    const now = clock?.() ?? (await serverTime(client))
    await putFrozen(client, unsealed(moved, entry.osUser, now), entry)
    await commitAlone(client)
    return moved
  })

const ERASURES = 'tranche_erasures.erasures'

/** Works where there is no database of ours too. */
export const readErasures = (url: string): Promise<Erasure[]> =>
  onServer(url, async (client) => {
    if (!(await isThere(client, ERASURES))) return []
    const select = `select sha256, at from ${ERASURES} order by at, sha256`
    const { rows } = await client.query<{ sha256: string; at: bigint }>(select)
    return rows.map(({ sha256, at }) => ({ sha256, at: instant(at) }))
  })

/** For a server that has a database of ours. */
export const addErasures = (url: string, erasures: readonly Erasure[]): Promise<void> =>
  onServer(url, async (client) => {
    if (erasures.length === 0) return
    await client.query('begin')
    await within(pipelineOn(client, null), (tx) => rememberOnServer(tx, erasures))
    await commitAlone(client)
  })

/** Every table of a schema: of the one that the connection uses, unless another one is named. */
const tablesOf = (client: Client, schema: string | null = null): Promise<string[]> =>
  firstColumn(
    client,
    `select c.relname::text from pg_class c
     where c.relnamespace = coalesce($1, current_schema())::regnamespace and c.relkind in ('r', 'p') order by c.oid`,
    [schema],
  )

/** Many copies from a database may run at once, one to it, and none while it is taken back. Throws database_in_use. */
async function takeCopyLock(
  client: Client,
  { server, alone }: { server: string; alone: boolean },
): Promise<void> {
  const take = `select pg_try_advisory_lock${alone ? '' : '_shared'}(${LOCK.copy}, 0)`
  const [isTaken] = await firstColumn<boolean>(client, take)
  if (isTaken) return
  throw new Problem('database_in_use', `A copy from or to ${server} is running: wait until it ends.`)
}
