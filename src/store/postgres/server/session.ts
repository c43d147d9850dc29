// The settings of a session, made before anything else, whatever its role, its database, its server or its address set.

import { readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import pg, { type ClientBase, type ClientConfig } from 'pg'
import { Problem, reasonInWords, usage } from '../../../core/problem.ts'
import { type AddressValues, addressValues, isPort, PORT_MAX, shownAddress } from '../../address.ts'
import { Silence } from './failures.ts'

/** How long a statement waits for a lock, or for its own end, before the server cancels it: as long as on a file. */
export const LOCK_WAIT_MAX_MS = 15_000
const STATEMENT_MAX_MS = 60_000
/** The limit for a statement that reads all of a month or lists every due plan: a hundred million rows take minutes. */
export const LARGE_STATEMENT_MAX_MS = 10 * 60_000
/** How long a transaction that its process has abandoned holds its locks. */
const IDLE_TRANSACTION_MAX_MS = 10_000
/** The longest wait for a connection, new or in use by others. */
export const CONNECT_MAX_MS = 10_000
/** A host that loses power closes no connection: its sessions' locks are released after half a minute of silence. */
export const SILENCE = { idle: 15, interval: 5, count: 3 }

/** Allowance for the network, and for a busy server. */
const SLACK_MS = 5_000

/** How long a process waits for an answer; null for as long as it takes. */
export type Patience = number | null
export const PATIENCE = {
  /** For work that ends by itself. */
  work: STATEMENT_MAX_MS + SLACK_MS,
  large: LARGE_STATEMENT_MAX_MS + SLACK_MS,
  /** For statements that a call waits for: the longest wait is for a lock. */
  call: LOCK_WAIT_MAX_MS + SLACK_MS,
  /** For a commit. With the limit of a statement, a server that waits for a standby would cancel and report success. */
  commit: LOCK_WAIT_MAX_MS + SLACK_MS,
  /** For the first statements on a new connection. */
  first: CONNECT_MAX_MS,
} as const

const SETTINGS = {
  lock_timeout: LOCK_WAIT_MAX_MS,
  statement_timeout: STATEMENT_MAX_MS,
  idle_in_transaction_session_timeout: IDLE_TRANSACTION_MAX_MS,
  // A session that only holds a lock stays silent for as long as the work takes.
  idle_session_timeout: 0,
  tcp_keepalives_idle: SILENCE.idle,
  tcp_keepalives_interval: SILENCE.interval,
  tcp_keepalives_count: SILENCE.count,
  default_transaction_isolation: 'read committed',
  // A cancelled commit is reported in a warning, which a higher level would suppress (commit.ts).
  client_min_messages: 'warning',
  // With a lower value, some numbers are read back as different ones.
  extra_float_digits: 1,
  // With `off`, a null in an array of texts would be written as the word.
  array_nulls: 'on',
  standard_conforming_strings: 'on',
  // Makes a statement fail if a policy hides rows: a ledger with hidden rows would add up to something else.
  row_security: 'off',
  // Statements here take milliseconds. Compiling one takes a hundred.
  jit: 'off',
}

// The driver's client on a guarded socket, because the driver's own has no public access.

export class Client extends pg.Client {
  readonly socket: Socket

  constructor({ address, ...rest }: ClientConfig & { address: string }) {
    const socket = guardedSocket()
    super({ ...rest, ...destinationOf(address), stream: () => socket })
    this.socket = socket
  }
}

/** The driver throws at some answers, where nobody can catch it; here, that ends the connection instead. */
function guardedSocket(): Socket {
  const socket = new Socket()
  const on = socket.on.bind(socket) as (event: string, listener: (value: unknown) => void) => Socket
  socket.on = ((event: string, listener: (value: unknown) => void) => {
    const guarded = (value: unknown): void => {
      try {
        listener.call(socket, value)
      } catch (error) {
        socket.destroy(error as Error)
      }
    }
    // By this property, Node finds the wrapped listener when it is to be removed.
    return on(event, event === 'data' ? Object.assign(guarded, { listener }) : listener)
  }) as Socket['on']
  // The driver corks the socket for each statement. Those of one turn leave in one write, which costs more than a
  // statement does.
  const cork = socket.cork.bind(socket)
  socket.cork = () => {
    if (socket.writableCorked === 0) {
      cork()
      process.nextTick(() => socket.uncork())
    }
    cork()
  }
  return socket
}

const socketOf = (client: ClientBase): Socket => (client as Client).socket

/** A connection, or a pool of them, that is asked one thing at a time. */
export type Asked = Pick<ClientBase, 'query'>

/** The first column of what a statement finds. */
export async function firstColumn<T>(asked: Asked, text: string, values: unknown[] = []): Promise<T[]> {
  const { rows } = await asked.query<Record<string, T>>(text, values)
  return rows.map((row) => Object.values(row)[0] as T)
}

/** Our mark in each session, the system identifier of its server: a new session that has one is shared with others. */
export const MARK = 'tranche.session'

// The path is set before any name is looked up: the role's own path may lead to functions of the same names.
const settingsFor = (schema: string): string => `set search_path to ${schema};
  select pg_is_in_recovery() as standby, current_setting('synchronous_commit') as commits,
    current_setting('server_version_num')::int8 as version, current_setting('server_encoding') as encoding,
    current_setting('session_replication_role') as replication, pg_backend_pid()::int8 as pid,
    inet_client_port()::int8 as port,
    coalesce(current_setting('${MARK}', true), '') as mark,
    coalesce(has_schema_privilege(to_regnamespace('${schema}'), 'usage'), true) as open,
    ${Object.entries(SETTINGS)
      .map(([name, value]) => `set_config('${name}', '${value}', false)`)
      .join(', ')},
    case when current_setting('server_version_num')::int8 >= 170000
      then set_config('transaction_timeout', '0', false) end,
    -- What waits for less than the disk of the standby that is asked for is as if there were none.
    case when current_setting('synchronous_commit') in ('local', 'remote_write')
      then set_config('synchronous_commit', 'on', false) end,
    set_config('${MARK}', (select system_identifier::text from pg_control_system()), false)`

/**
 * Sets up a session and checks its server. Returns whether a pooler may be in between; `staysItself` throws when that
 * gives this connection another session from one statement to the next.
 */
export async function settle(
  client: ClientBase,
  asked: Asked,
  { server, schema }: { server: string; schema: string },
): Promise<{ isPooled: boolean; staysItself: () => Promise<void> }> {
  const answers = await asked.query(settingsFor(schema))
  const [, described] = answers as unknown as {
    rows: (SessionState & { pid: bigint; port: bigint | null })[]
  }[]
  const found = described?.rows[0]
  if (!found) throw new Error('the server does not describe itself')
  refuseUnfit(found, server)
  return {
    // Over a local socket this cannot be told, and elsewhere a router may have changed the port.
    isPooled: Number(found.port) !== socketOf(client).localPort,
    async staysItself() {
      for (let i = 0; i < ASKS; i++) {
        const [pid] = await firstColumn<bigint>(asked, 'select pg_backend_pid()::int8')
        if (pid !== found.pid) throw unfit(server, POOLED)
      }
    },
  }
}

/** How often to ask: in a busy pool, a statement may by chance get the same session again. */
const ASKS = 5

// Refused servers: they would not store values unchanged, or are not PostgreSQL itself.

const POOLED =
  'is behind a pool that gives a session to others as its last client has left it, with its locks and settings: tranche needs one in session mode that resets each (in PgBouncer, pool_mode = session and server_reset_query = DISCARD ALL)'

const unfit = (server: string, why: string): Problem => new Problem('storage_failed', `${server} ${why}.`)

/** The state of a server and of the session. */
export type SessionState = {
  standby: boolean
  commits: string
  version: bigint
  encoding: string
  replication: string
  mark: string
  open: boolean
}

export function refuseUnfit(session: SessionState, server: string): void {
  const [, why] = UNFIT.find(([is]) => is(session)) ?? []
  if (why !== undefined) throw unfit(server, why.replace('{encoding}', session.encoding))
}

const UNFIT: [is: (session: SessionState) => boolean, why: string][] = [
  [({ standby }) => standby, 'is a standby, which takes no writes: name the primary'],
  [
    ({ commits }) => commits === 'off',
    'answers before a commit is on disk: set its synchronous_commit to on',
  ],
  [({ version }) => version < 150_000n, 'is older than PostgreSQL 15: upgrade it'],
  [
    ({ encoding }) => encoding !== 'UTF8',
    'stores its text as {encoding}, not as UTF-8: create the database with createdb --encoding UTF8 --template template0',
  ],
  [
    ({ replication }) => replication !== 'origin',
    'checks no references for this user: set its session_replication_role to origin',
  ],
  [({ mark }) => mark !== '', POOLED],
  [
    ({ open }) => !open,
    'has a schema tranche that this user may not use: connect as its owner, or let the owner GRANT USAGE ON SCHEMA tranche',
  ],
]

// Cuts a connection whose server has been silent for too long. A healthy server ends a slow statement and says so. One
// that hangs, or whose network is cut, does not, and its client would wait forever.

type Watch = {
  /** A query was sent, after all earlier ones. */
  asked: (patience: Patience) => void
  /** The oldest query was answered. */
  answered: () => void
  /** Why the connection was cut, since TLS hides that from those who wait; null while it was not. */
  silence: () => Silence | null
}

/** Cuts a connection whose server has not answered the oldest query in time: all queries then under way fail. */
export function watchOver(client: ClientBase): Watch {
  const waiting: Patience[] = []
  let timer: NodeJS.Timeout | undefined
  let silence: Silence | null = null

  function wait(): void {
    clearTimeout(timer)
    const [patience = null] = waiting
    timer =
      patience === null
        ? undefined
        : setTimeout(() => {
            silence = new Silence(patience)
            // A proper close needs a server that answers.
            socketOf(client).destroy(silence)
          }, patience)
  }

  return {
    asked(patience) {
      waiting.push(patience)
      if (waiting.length === 1) wait()
    },
    answered() {
      waiting.shift()
      wait()
    },
    silence: () => silence,
  }
}

/** Time limits for the queries sent one by one, before anything else. */
export const impatient = (asked: Asked): Asked => ({
  query: ((text: string, values: unknown[] = []) =>
    asked.query({ text, values, query_timeout: PATIENCE.first } as never)) as unknown as ClientBase['query'],
})

// Turns an address into the driver's settings. Parts missing from the address are taken from the variables of
// PostgreSQL's own programs: PGHOST, PGPASSWORD and so on.

/** Throws usage, and storage_failed for a file that the address names and that cannot be read. */
export function destinationOf(url: string): ClientConfig {
  const values = addressValues(url)
  const { host, port, user, password, dbname, options } = values
  // With such a value, the driver never answers.
  if (port === null && !isPort(process.env.PGPORT || '5432'))
    throw usage(`PGPORT is not a number from 1 to ${PORT_MAX}.`)
  return {
    ...(host === null ? {} : { host }),
    ...(port === null ? {} : { port: Number(port) }),
    ...(user === null ? {} : { user }),
    ...(password === null ? {} : { password }),
    ...(dbname === null ? {} : { database: dbname }),
    ...(options === null ? {} : { options }),
    ...tlsOf(values, (file) => textOf(file, url)),
  }
}

/** Every mode that asks for TLS checks the certificate and its name: its purpose is to know who gets the password. */
function tlsOf(
  { host, sslmode, sslrootcert, sslcert, sslkey }: AddressValues,
  read: (file: string) => string,
): Pick<ClientConfig, 'ssl'> {
  // A local socket is private, and the server offers no TLS there.
  if (sslmode === 'disable' || host?.startsWith('/')) return { ssl: false }
  if (sslmode === null && sslrootcert === null && sslcert === null && sslkey === null) return {}
  return {
    ssl: {
      ...(sslrootcert === null ? {} : { ca: read(sslrootcert) }),
      ...(sslcert === null ? {} : { cert: read(sslcert) }),
      ...(sslkey === null ? {} : { key: read(sslkey) }),
      ...(sslmode === 'no-verify' ? { rejectUnauthorized: false } : {}),
    },
  }
}

function textOf(file: string, url: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Problem(
      'storage_failed',
      `A file that the address of ${shownAddress(url)} names cannot be read: ${file}: ${reasonInWords(error)}. Put the right one into it.`,
    )
  }
}
