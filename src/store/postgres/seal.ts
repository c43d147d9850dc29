// The seal of a database on a server: a row that says where it has moved to, and a trigger on every table that refuses
// each write. The server itself enforces them, so every writer is refused: a host that was already connected, a program
// of another version, a shell.

import pg, { type ClientBase } from 'pg'
import { Problem } from '../../core/problem.ts'
import type { Restored } from '../../core/standstill.ts'
import type { Instant } from '../../core/time.ts'
import { auditParams } from '../rows/accounts.ts'
import { type Seal, sealedWords } from '../seal.ts'
import { standstillParams } from '../standstill.ts'
import { instant } from '../statement.ts'
import type { AuditEntry } from '../store.ts'
import { columnsToAdd } from '../tables.ts'
import { SEALED_STATE } from './server/errors.ts'
import { LOCK } from './server/locks.ts'
import { SERVER_MS_SQL } from './server/pipeline.ts'

type Asking = Pick<ClientBase, 'query'>

export async function sealOf(client: Asking): Promise<Seal | null> {
  const { rows } = await client.query('select at, moved_to from sealed')
  const [row] = rows as { at: bigint; moved_to: string }[]
  return row ? { at: instant(row.at), movedTo: row.moved_to } : null
}

/** To be called inside a transaction that has locked the tables. */
export async function setSeal(client: Asking, seal: Seal): Promise<void> {
  await client.query(
    'insert into sealed values (1, $1, $2) on conflict (one) do update set at = excluded.at, moved_to = excluded.moved_to',
    [seal.at, seal.movedTo],
  )
  // Without its full stop, which every sentence about an error of the server ends with.
  const words = pg.escapeLiteral(sealedWords(seal).replace(/\.$/, '').replaceAll('%', '%%'))
  const body = `begin raise exception ${words} using errcode = '${SEALED_STATE}'; end`
  await client.query(
    `create function refuse_sealed() returns trigger language plpgsql as ${pg.escapeLiteral(body)}`,
  )
  for (const table of await tablesOf(client))
    await client.query(
      `create trigger a_sealed before insert or update or delete or truncate on ${table}
       for each statement execute function refuse_sealed()`,
    )
}

/** To be called inside a transaction. */
export async function breakSeal(client: Asking): Promise<void> {
  await client.query('drop function if exists refuse_sealed() cascade')
  await client.query('delete from sealed')
}

/**
 * Does something inside a transaction even in a database that is sealed and stays so. A null `clock` takes the
 * server's: an entry that lies ahead would confirm months that are not over.
 */
async function throughSeal(
  client: Asking,
  clock: (() => Instant) | null,
  work: (now: Instant) => Promise<void>,
): Promise<void> {
  const seal = await sealOf(client)
  if (seal) await breakSeal(client)
  await client.query(`select pg_advisory_xact_lock(${LOCK.audit}, 0)`)
  await work(clock?.() ?? (await serverClock(client)))
  if (seal) await setSeal(client, seal)
}

/** Records an audit entry, sealed or not. */
export const auditThroughSeal = (
  client: Asking,
  entry: AuditEntry,
  clock: (() => Instant) | null,
): Promise<void> => throughSeal(client, clock, (now) => insertRow(client, 'audit', auditParams(entry, now)))

/** Makes a database that was put back from a copy stand still, sealed or not. */
export const noteRestored = (
  client: Asking,
  { replaced, copy }: Omit<Restored, 'at'>,
  clock: (() => Instant) | null,
): Promise<void> =>
  throughSeal(client, clock, async (now) => {
    await client.query('delete from standstill')
    await insertRow(client, 'standstill', standstillParams({ at: now, copy, replaced }))
  })

async function insertRow(
  client: Asking,
  table: 'audit' | 'standstill',
  row: Readonly<Record<string, unknown>>,
): Promise<void> {
  const columns = columnsToAdd(table)
  await client.query(
    `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, i) => `$${i + 1}`).join(', ')})`,
    columns.map((column) => row[column]),
  )
}

async function serverClock(client: Asking): Promise<Instant> {
  const { rows } = await client.query(`select ${SERVER_MS_SQL} as now`)
  return instant((rows as [{ now: bigint }])[0].now)
}

/** Every table of a schema: of the one that the connection uses, unless another one is named. */
export async function tablesOf(client: Asking, schema: string | null = null): Promise<string[]> {
  const { rows } = await client.query(
    `select c.relname::text as name from pg_class c
     where c.relnamespace = coalesce($1, current_schema())::regnamespace and c.relkind in ('r', 'p') order by c.oid`,
    [schema],
  )
  return (rows as { name: string }[]).map(({ name }) => name)
}

// Which copies may run at the same time: many from a database, one to it. A seal may be taken off only while no copy is
// running. Otherwise, a copy that has no name yet could get it afterwards, and two databases would take writes.

/** A lock that the session holds. Throws database_in_use. */
export async function takeCopyLock(
  client: Pick<ClientBase, 'query'>,
  { server, alone }: { server: string; alone: boolean },
): Promise<void> {
  const { rows } = await client.query(
    `select pg_try_advisory_lock${alone ? '' : '_shared'}(${LOCK.copy}, 0) as taken`,
  )
  if ((rows[0] as { taken: boolean }).taken) return
  throw new Problem('database_in_use', `A copy from or to ${server} is running: wait until it ends.`)
}
