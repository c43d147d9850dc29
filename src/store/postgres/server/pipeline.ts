// One transaction on one connection. Statements are sent without waiting for each other's answers; a failure is
// reported once, as the first error that occurred.

import type { ClientBase, PoolClient, QueryResult } from 'pg'
import { Problem } from '../../../core/problem.ts'
import type { Instant } from '../../../core/time.ts'
import { readMigrations } from '../../../resources.ts'
import { createSchemaWatch, isOtherSchema } from '../../migrations.ts'
import {
  atOf,
  type Dialect,
  type Kinds,
  type Params,
  type Query,
  query,
  readBy,
  rowsOf,
} from '../../statement.ts'
import { type Patience, watchOver } from './session.ts'

// A statement in PostgreSQL's form: ":tenant" becomes "$1", and "::bigint" stays a cast.

type Statement = {
  /** The name under which each connection prepares it, on first use. */
  name: string
  text: string
  params: readonly string[]
  /** The parameters with many rows: an array for each of their columns. */
  sets: Readonly<Record<string, Kinds>>
}

const DIALECT = {
  among: (column, parameter, type = 'bigint') => `${column} = any(:${parameter}::${type}[])`,
  field: (json, name) => `${json}::json ->> '${name}'`,
  firstWord: (text) => `split_part(${text}, ' ', 1)`,
  least: (...values) => `least(${values.join(', ')})`,
  databaseBytes: 'pg_database_size(current_database())',
  forUpdate: (of) => `for no key update of ${of}`,
} satisfies Omit<Dialect, 'rows'> as Omit<Dialect, 'rows'>
const ARRAYS = { integer: 'bigint', text: 'text', real: 'float8' } as const
const PARAMETER = /(?<!:):([a-z][a-z0-9_]*)/g

/** For the whole process: a statement has the same name on every connection. */
const statements: Statement[] = []
export function ready({ id, text }: Query<unknown>): Statement {
  statements[id] ??= worded(`q${id}`, text)
  return statements[id]
}

function worded(name: string, written: Query<unknown>['text']): Statement {
  const sets: Record<string, Kinds> = {}
  const rows: Dialect['rows'] = (parameter, kinds, as) => {
    sets[parameter] = kinds
    const arrays = Object.entries(kinds).map(([column, kind]) => `:${parameter}_${column}::${ARRAYS[kind]}[]`)
    return `unnest(${arrays.join(', ')}) as ${as} (${Object.keys(kinds).join(', ')})`
  }
  const source = typeof written === 'string' ? written : written({ ...DIALECT, rows })
  const params: string[] = []
  const text = source.replaceAll(PARAMETER, (_, param: string) => {
    if (!params.includes(param)) params.push(param)
    return `$${params.indexOf(param) + 1}`
  })
  return { name, text, params, sets }
}

/** PostgreSQL's text holds no NUL. In a look-up it becomes another control character, which no id has either. */
const known = (value: unknown): unknown =>
  typeof value === 'string'
    ? value.replaceAll('\0', '\u0001')
    : Array.isArray(value)
      ? value.map(known)
      : value

/** The values of a statement in the order of its parameters. A missing one is the caller's mistake. */
export function valuesOf({ text, params: names, sets }: Statement, given: Params): unknown[] {
  const params: Record<string, unknown> = { ...given }
  for (const [name, kinds] of Object.entries(sets))
    for (const [column, kind] of Object.entries(kinds)) {
      const values = rowsOf(given, name).map((row) => row[column])
      params[`${name}_${column}`] = kind === 'text' ? values : numbers(values)
    }
  return names.map((name) => {
    if (!(name in params)) throw new Error(`no value for :${name} of ${text}`)
    return known(params[name])
  })
}

/** An array of numbers in PostgreSQL's syntax: the client would search each of them for quotes. */
const numbers = (values: readonly unknown[]): string =>
  `{${values.map((value) => value ?? 'null').join(',')}}`

/** The statements of a transaction, which run in the order in which they are sent. */
export type Tx = {
  all<Row>(query: Query<Row>, params?: Params): Promise<Row[]>
  /** The first row, undefined when there is none. */
  get<Row>(query: Query<Row>, params?: Params): Promise<Row | undefined>
  /** How many rows were touched. */
  run(query: Query<unknown>, params?: Params): Promise<number>
}

export type Pipeline<Client extends ClientBase = PoolClient> = Tx & {
  client: Client
  /** A statement about the transaction itself. */
  send(text: string, patience?: Patience): Promise<QueryResult>
  /** Resolves when every statement is answered. Throws the first error. */
  settled(): Promise<void>
  /** Whether a statement has failed: it is then unknown which ones this connection has prepared. */
  hasFailed(): boolean
}

/** `patience` is how long any of its answers may take. */
export function pipelineOn<Client extends ClientBase>(client: Client, patience: Patience): Pipeline<Client> {
  const underWay = new Set<Promise<unknown>>()
  const watch = watchOver(client)
  let failure: { error: unknown } | null = null

  function follow(answer: Promise<QueryResult>, within = patience): Promise<QueryResult> {
    watch.asked(within)
    const noted = answer.catch((error) => {
      throw watch.silence() ?? error
    })
    const tracked = noted
      .catch((error) => {
        failure ??= { error }
      })
      .finally(() => {
        watch.answered()
        underWay.delete(tracked)
      })
    underWay.add(tracked)
    return noted
  }
  // A statement that cannot be sent counts as failed too: the server does not know of it, and would commit the rest.
  const send = async (query: Query<unknown>, params: Params): Promise<QueryResult> => {
    const statement = ready(query)
    const { name, text } = statement
    return client.query({ name, text, values: valuesOf(statement, params) })
  }
  const ask = (query: Query<unknown>, params: Params): Promise<QueryResult> => follow(send(query, params))

  return {
    client,
    all: async (query, params = {}) => readBy(query, (await ask(query, params)).rows),
    get: async (query, params = {}) => readBy(query, (await ask(query, params)).rows.slice(0, 1))[0],
    run: async (query, params = {}) => (await ask(query, params)).rowCount ?? 0,
    send: (text, within) => follow(client.query(text), within),
    async settled() {
      while (underWay.size > 0) await Promise.all(underWay)
      if (failure) throw failure.error
    },
    hasFailed: () => failure !== null,
  }
}

/** The first failure on the connection explains all others, except when the schema is not one of ours. */
export async function firstError(pipeline: Pipeline, error: unknown): Promise<unknown> {
  if (!pipeline.hasFailed() || isOtherSchema(error)) return error
  return pipeline.settled().then(
    () => error,
    (first) => first,
  )
}

// The clock: the server's, which all hosts share, or a test's.

/** Milliseconds since 1970 as SQL. */
export const SERVER_MS_SQL = 'floor(extract(epoch from clock_timestamp()) * 1000)::bigint'
/** The clock with the parameter `clock`: null, or a test's time. */
const NOW_SQL = `coalesce(:clock::bigint, ${SERVER_MS_SQL})`

/** The time of a write now: the clock, but never below what has been reported. */
export const PRESENT_SQL = `greatest(${NOW_SQL}, (select at from reported_until))`

const CLOCK = query(`select ${NOW_SQL} as at`, atOf)
const PRESENT = query(`select ${PRESENT_SQL} as at`, atOf)

export type ServerClock = {
  /** The value of the parameter `clock`. */
  parameter: () => Instant | null
  now(tx: Tx): Promise<Instant>
  /** The time of a write now: never below what has been reported. */
  present(tx: Tx): Promise<Instant>
}

export function createServerClock(given: (() => Instant) | null): ServerClock {
  const parameter = () => given?.() ?? null
  const ask = async (tx: Tx, which: Query<Instant>): Promise<Instant> =>
    (await tx.get(which, { clock: parameter() })) as Instant
  return { parameter, now: async (tx) => given?.() ?? ask(tx, CLOCK), present: (tx) => ask(tx, PRESENT) }
}

// Whether the schema is still one that this program knows: another host may have been upgraded, and have migrated the
// database, while this process has its connections open. A migration waits for every write under way and keeps the next
// ones waiting (migrate.ts), so what a write sees at its gate holds until its commit.
//
// And whether it is still the schema that was opened: a restore gives the name to another one. A restore waits until
// nobody uses the database (locks.ts), but it cannot see a process that was cut off meanwhile.

/** `identity` is the schema's own, which it keeps under another name and on a standby. */
export type SchemaState = { last_applied: string | null; identity: bigint }
export const SCHEMA_SQL = `(select max(name) from migrations) as last_applied,
  current_schema()::regnamespace::oid::int8 as identity`
const SEEN = query<SchemaState>(`select ${SCHEMA_SQL}`)

export type SchemaLook = {
  /** Throws schema_newer and database_gone. After database_gone it always throws. */
  found: (state: SchemaState) => void
  /** Runs a read, and looks at the schema too unless it has just looked. Throws as `found` does. */
  beside<T>(tx: Tx, reading: () => Promise<T>): Promise<T>
  /** Looks at the schema. Throws as `found` does. */
  look(tx: Tx): Promise<void>
}

/** Watches the schema found by the first look. */
export function watchSchema(server: string): SchemaLook {
  const watch = createSchemaWatch(readMigrations('postgres'))
  let opened: bigint | undefined
  let gone: Problem | null = null
  function found({ last_applied, identity }: SchemaState): void {
    opened ??= identity
    if (identity !== opened) gone ??= replaced(server)
    if (gone) throw gone
    watch.found(last_applied)
  }
  const look = async (tx: Tx): Promise<void> => {
    const row = await tx.get(SEEN)
    if (row) found(row)
  }
  return {
    found,
    look,
    async beside(tx, reading) {
      if (gone) throw gone
      if (!watch.isDue()) return reading()
      // Sent first and awaited last, so that it costs no round trip of its own.
      const looked = look(tx)
      looked.catch(() => {})
      try {
        return await reading()
      } finally {
        await looked
      }
    },
  }
}

const replaced = (server: string): Problem =>
  new Problem(
    'database_gone',
    `${server} was replaced while it was open, so nothing more is stored: restart this process if it is to work on what is there now.`,
  )
