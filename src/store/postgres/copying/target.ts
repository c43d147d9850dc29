// A database under construction on a server: in a schema of another name, which is renamed once it is verified. It is
// filled in one transaction, so a crash leaves either nothing of it, or all of it under a name that only the next copy
// looks at.

import type { Client } from 'pg'
import { formatInstant, type Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { shownAddress } from '../../address.ts'
import type { AuditEntry } from '../../audit.ts'
import type { FileHistory, NewTarget, TargetOptions } from '../../copying/ends.ts'
import { openMade } from '../open.ts'
import { commitAlone } from '../server/commit.ts'
import { isRowsFault } from '../server/error-kinds.ts'
import { explaining } from '../server/error-words.ts'
import { takeFromUsers } from '../server/in-use.ts'
import { LOCK } from '../server/locks.ts'
import { bringUp, isEmpty, SCHEMA } from '../server/migrate.ts'
import { openAlone } from '../server/pool.ts'
import { takeCopyLock } from './copy-lock.ts'
import { copyIn } from './protocol.ts'
import { auditThroughSeal, setSeal } from './seal.ts'
import { rowsOn } from './source.ts'

const MAKING = 'tranche_copying'

/** Throws database_exists where there is something of ours, database_in_use where it is being copied, from or to. */
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
  let putBack: string[]
  try {
    putBack = await explaining(server, () => begin(client, { server, now, replace }))
  } catch (error) {
    await client.query('rollback').catch(() => {})
    await client.end().catch(() => {})
    throw error
  }
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
    settle: ({ fileHistory, seal }) =>
      explaining(server, async () => {
        for (const statement of putBack) await client.query(statement)
        await countOn(client)
        await keepHistory(client, fileHistory)
        if (seal) await setSeal(client, seal)
        await commitAlone(client)
        // The server would do so by itself.
        await client.query('analyze')
      }),
    openStore: async () => openMade(url, MAKING, clock),
    publish: (audit) =>
      explaining(server, async () => {
        const replaced = await takeName(client, { server, now, replace, clock, audit })
        isPublished = true
        return { replaced, bytes: null }
      }),
    close,
  }
}

type Where = { server: string; now: Instant; replace: boolean }

/** Leaves the connection in the transaction that fills the tables. Returns what is then to be done for their rows. */
async function begin(client: Client, { server, now, replace }: Where): Promise<string[]> {
  if (!replace && !(await isEmpty(client, SCHEMA))) throw taken(server)
  await takeCopyLock(client, { server, alone: true })
  // Checked again when the name is taken. But a copy takes long, and most sessions that are there now will stay.
  await takeFromUsers(client, server)
  // Removes what a copy left that was killed after all its rows were there. If this is lost, the next copy does it
  // again.
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

/**
 * Drops references and indexes, which would otherwise be maintained row by row, and returns the statements that rebuild
 * them from all rows at once. Unique indexes stay.
 */
async function withoutIndexes(client: Client): Promise<string[]> {
  const { rows } = await client.query(
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
  const found = rows as { off: string; back: string }[]
  for (const { off } of found.toReversed()) await client.query(off)
  return found.map(({ back }) => back)
}

/** Numbering continues after the highest number there is. */
async function countOn(client: Client): Promise<void> {
  const { rows } = await client.query(
    `select table_name::text as name, column_name::text as key from information_schema.columns
     where table_schema = current_schema() and is_identity = 'YES'`,
  )
  for (const { name, key } of rows as { name: string; key: string }[])
    await client.query(
      `select setval(pg_get_serial_sequence('${name}', '${key}'), coalesce(max(${key}), 0) + 1, false) from ${name}`,
    )
}

async function keepHistory(client: Client, { migrations }: FileHistory): Promise<void> {
  for (const { name, sha256, appliedAt } of migrations)
    await client.query('insert into file_migrations values ($1, $2, $3)', [name, sha256, appliedAt])
}

/** Throws database_exists and database_in_use: the name then stays with the old database. */
async function takeName(
  client: Client,
  { server, now, replace, clock, audit }: Where & { clock: (() => Instant) | null; audit: AuditEntry | null },
): Promise<string | null> {
  await client.query('begin')
  await client.query(`select pg_advisory_xact_lock(${LOCK.migrate}, 0)`)
  // A process that is still connected would go on in the new database with what it remembers of the old one.
  await takeFromUsers(client, server)
  if (audit) await auditThroughSeal(client, audit, clock)
  let kept: string | null = null
  if (!(await isEmpty(client, SCHEMA))) {
    if (!replace) throw taken(server)
    kept = await freeName(client, `${SCHEMA}_replaced_${formatInstant(now).replaceAll(/\D/g, '')}`)
    await client.query(`alter schema ${SCHEMA} rename to ${kept}`)
  }
  // An empty schema was made for us. One that is not empty is somebody else's, and the statement fails.
  await client.query(`drop schema if exists ${SCHEMA}`)
  await client.query(`alter schema ${MAKING} rename to ${SCHEMA}`)
  await commitAlone(client)
  return kept
}

/** The name itself, or the first free name that begins with it. */
async function freeName(client: Client, name: string): Promise<string> {
  for (let n = 1; ; n++) {
    const tried = n === 1 ? name : `${name}_${n}`
    const { rows } = await client.query('select to_regnamespace($1) is null as free', [tried])
    if ((rows as { free: boolean }[])[0]?.free) return tried
  }
}
