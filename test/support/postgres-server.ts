// A real PostgreSQL server for tests: in a folder of its own, over a socket only, stopped when its process ends, in
// whatever way. Each test has a database of its own, copied from one with the schema.

import assert from 'node:assert/strict'
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { migrate } from '../../src/store/postgres/server/migrate.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { serverProgram } from './tools.ts'
import { freePort, until } from './within.ts'

export type Server = {
  folder: string
  /** The address of a database of this server. */
  url: (database: string, user?: string) => string
  /** Queries the server itself, as its superuser. */
  ask: <Row extends object>(sql: string, database?: string) => Promise<Row[]>
  /** Sends the server's first process a signal: SIGQUIT crashes it, SIGINT stops its work and ends it. */
  kill: (signal: NodeJS.Signals) => void
  /** Restarts it in its folder once it has ended, in whatever way. */
  again: () => Promise<void>
  /** Ends it and removes its folder. */
  stop: () => Promise<void>
}

const TEMPLATE = 'template_tranche'
let running: Promise<Server> | undefined
let started: Server | undefined

/** The server of this process, started on first use. */
export function ourServer(): Promise<Server> {
  running ??= startServer().then(async (server) => {
    await server.ask(`create database ${TEMPLATE}`)
    const pool = openPool(server.url(TEMPLATE))
    await migrate(pool, () => Date.UTC(2026, 0, 5) as never)
    await pool.end()
    started = server
    return server
  })
  return running
}

/** The address of a database for one test alone: equal names give the same database. */
export async function ownDatabase(name: string): Promise<string> {
  const server = await ourServer()
  const database = databaseName(name)
  const there = await server.ask(`select 1 as one from pg_database where datname = '${database}'`)
  if (there.length === 0) await copyTemplate(database, server.ask)
  made.add(database)
  return server.url(database)
}

/** Makes a database with only the schema, on the `ourServer` of this process or of another. */
export async function copyTemplate(name: string, ask: (sql: string) => Promise<unknown>): Promise<void> {
  await ask(`create database ${name} template ${TEMPLATE} strategy file_copy`)
}

/** The address of an empty database, created if missing. The server must have been started: nothing is awaited here. */
export function emptyDatabase(name: string): string {
  if (!started) throw new Error('the server was not started')
  const database = databaseName(name)
  const where = ['-h', started.folder, '-U', 'tranche']
  if (!made.has(database)) execFileSync(serverProgram('createdb'), [...where, database], { stdio: 'pipe' })
  made.add(database)
  return started.url(database)
}

const databaseName = (of: string): string => `t${createHash('sha256').update(of).digest('hex').slice(0, 20)}`
const made = new Set<string>()

/** Makes a cluster and starts it. `settings` are added to those that make it fast and not durable. */
export async function startServer(settings: Record<string, string> = {}): Promise<Server> {
  const folder = mkdtempSync(join(shortFolder(), 'tpg-'))
  const owner = ownerOf(folder)
  // Its folder may have been cleaned up meanwhile.
  if (!pristine || !existsSync(pristine)) pristine = makeCluster()
  execFileSync('cp', ['-R', pristine, join(folder, 'data')], owner)
  return runServer(folder, settings)
}

/** The result of initdb, made once in a process: a copy takes a tenth of the time. */
let pristine: string | undefined

function makeCluster(): string {
  const folder = mkdtempSync(join(shortFolder(), 'tpg-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const data = join(folder, 'data')
  const settings = '--no-sync --data-checksums -A trust --locale=C -E UTF8 -U tranche'.split(' ')
  execFileSync(serverProgram('initdb'), ['-D', data, ...settings], { ...ownerOf(folder), stdio: 'pipe' })
  return data
}

/** A copy of a running server that follows it; it becomes a server of its own by `select pg_promote()`. */
export async function startStandby(of: Server, settings: Record<string, string> = {}): Promise<Server> {
  const folder = mkdtempSync(join(shortFolder(), 'tpg-'))
  const { username, port } = new URL(of.url('postgres'))
  const source = `host=${of.folder} port=${port} user=${username}`
  // -R makes it follow; without an immediate checkpoint it would wait minutes for the next one.
  const argv = ['-D', join(folder, 'data'), '-d', source, '-R', '--checkpoint=fast', '--no-sync']
  await promisify(execFile)(serverProgram('pg_basebackup'), argv, ownerOf(folder))
  return runServer(folder, settings)
}

const FAST = { fsync: 'off', full_page_writes: 'off', max_connections: '200', max_wal_size: '4GB' }

/**
 * Supervises the server and restarts it for each line of its input. The input ends with the process at its other end,
 * kill -9 included: then this ends the server and removes the folder.
 */
const KEEPER = `while "$@" >> "$0/log" 2>&1 & server=$!; read -r line; do :; done
  kill -CONT $server; kill -QUIT $server; wait; rm -rf "$0"`

/** Starts the cluster in a folder. */
export async function runServer(folder: string, settings: Record<string, string> = {}): Promise<Server> {
  const all = { ...FAST, listen_addresses: '', unix_socket_directories: folder, ...settings }
  const options = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const command = [serverProgram('postgres'), '-D', join(folder, 'data'), ...options]
  const keeper = spawn('sh', ['-c', KEEPER, folder, ...command], {
    ...ownerOf(folder),
    // A Ctrl-C at the terminal must not reach it.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  keeper.unref()
  ;(keeper.stdin as unknown as { unref: () => void }).unref()
  const url: Server['url'] = (database, user = 'tranche') =>
    `postgres://${user}@localhost:${settings.port ?? 5432}/${database}?host=${encodeURIComponent(folder)}`
  const ask: Server['ask'] = async (sql, database = 'postgres') => {
    const client = new pg.Client({ connectionString: url(database) })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query(sql)).rows
    } finally {
      await client.end()
    }
  }
  const kill = (signal: NodeJS.Signals): void => {
    const [pid] = readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n')
    process.kill(Number(pid), signal)
  }
  const again = async (): Promise<void> => {
    // Processes of the previous server may still be ending, and prevent the next one from starting.
    for (let tried = 1; ; tried++) {
      keeper.stdin?.write('\n')
      try {
        return await isReady(ask, folder, AGAIN_MS * tried)
      } catch (error) {
        if (tried === AGAIN_MAX) throw error
      }
    }
  }
  await isReady(ask, folder)
  return { folder, url, ask, kill, again, stop: () => ended(keeper) }
}

async function ended(keeper: ChildProcess): Promise<void> {
  if (keeper.exitCode !== null || keeper.signalCode !== null) return
  const gone = new Promise((resolve) => keeper.once('exit', resolve))
  keeper.ref()
  keeper.stdin?.end()
  await gone
}

/** Resolves once it answers. Throws with its log when it does not start, or not in time. */
export async function isReady(ask: Server['ask'], folder: string, withinMs = START_MAX_MS): Promise<void> {
  const began = performance.now()
  for (;;) {
    try {
      await ask('select 1')
      return
    } catch (error) {
      const waited = performance.now() - began
      const isRunning = existsSync(join(folder, 'data/postmaster.pid'))
      if (waited > withinMs || (waited > BEGIN_MAX_MS && !isRunning))
        throw new Error(readFileSync(join(folder, 'log'), 'utf8'), { cause: error })
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

const START_MAX_MS = 60_000
const BEGIN_MAX_MS = 5_000
const AGAIN_MS = 2_000
const AGAIN_MAX = 7

/** The longest path of a socket, and the server's part of it after one of our folders. */
const SOCKET_BYTES_MAX = 107
const SOCKET = '/tpg-123456/.s.PGSQL.5432'

/** The folder for temporary files, or another one where its name is too long or the server's user has no access. */
function shortFolder(): string {
  const fits = (folder: string) => Buffer.byteLength(folder + SOCKET) <= SOCKET_BYTES_MAX && isOpen(folder)
  const found = [tmpdir(), '/dev/shm', '/tmp'].find(fits)
  if (found === undefined) throw new Error('no folder for temporary files is good for a server')
  return found
}

/** Whether another user has access to it through all folders above it. */
const isOpen = (folder: string): boolean =>
  process.getuid?.() !== 0 ||
  (existsSync(folder) && (statSync(folder).mode & 0o001) !== 0 && (folder === '/' || isOpen(dirname(folder))))

/** The server refuses to run as root: then it runs as the user that Debian creates for it. */
function ownerOf(folder: string): { uid?: number; gid?: number; cwd: string } {
  if (process.getuid?.() !== 0) return { cwd: folder }
  const id = (option: string) => Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }))
  const [uid, gid] = [id('-u'), id('-g')]
  chownSync(folder, uid, gid)
  return { uid, gid, cwd: folder }
}

// A server that requires a password, as one over a network does.

/** The password that no output may contain. */
export const PASSWORD = 'canary-7Zq2kP0sXw4tB9'

export type Guarded = {
  server: Server
  port: string
  settings: Record<string, string>
  /** The address of a database for the user `app`, who owns the database of that name. */
  url: (password: string, database?: string) => string
}

/** A server on a port of this machine, with a user `app` who needs the password. */
export async function withPasswords(t: TestContext, more: Record<string, string> = {}): Promise<Guarded> {
  const port = String(await freePort())
  const settings = { listen_addresses: '127.0.0.1', port, ...more }
  const server = await startServer(settings)
  t.after(server.stop)
  await server.ask(`create role app login password '${PASSWORD}'`)
  await server.ask('create database app owner app')
  const rules = join(server.folder, 'data/pg_hba.conf')
  writeFileSync(
    rules,
    `host all app 127.0.0.1/32 scram-sha-256\nlocal all app scram-sha-256\n${readFileSync(rules, 'utf8')}`,
  )
  await server.ask('select pg_reload_conf()')
  const url = (password: string, database = 'app') =>
    `postgres://app:${password}@127.0.0.1:${port}/${database}`
  return { server, port, settings, url }
}

// PgBouncer before a server of the tests, over a socket in the server's folder.

const PORT = 6432

/** Starts it; answers the address of a database of the server through it. */
export async function poolTo(
  t: Pick<TestContext, 'after'>,
  server: Server,
  settings: Record<string, string>,
): Promise<(database: string) => string> {
  const { folder } = server
  const { uid, gid } = statSync(join(folder, 'data'))
  const file = (name: string, text: string): string => {
    const path = join(folder, name)
    writeFileSync(path, text)
    chownSync(path, uid, gid)
    return path
  }
  const users = file('pool-users', '"tranche" ""\n')
  const all = {
    listen_port: PORT,
    unix_socket_dir: folder,
    auth_type: 'trust',
    auth_file: users,
    ...settings,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
  const config = file('pool.ini', `[databases]\n* = host=${folder}\n[pgbouncer]\n${lines.join('\n')}\n`)
  // It refuses to run as root, as the server does.
  const child = spawn('pgbouncer', [config], { uid, gid, cwd: folder, stdio: 'ignore' })
  const ended = once(child, 'exit')
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const socket = join(folder, `.s.PGSQL.${PORT}`)
  while (!existsSync(socket)) {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode}`)
    await pause(10)
  }
  return (database) => `postgres://tranche@localhost:${PORT}/${database}?host=${encodeURIComponent(folder)}`
}

// A primary whose commits wait for its standby, and a session that cancels such a wait: then the commit is on one disk
// alone, and the server reports success.

const WAIT_MAX_MS = 60_000

type Pair = {
  primary: Server
  /** Makes commits wait from now on. Returns the function that lets them continue. */
  holdBack: () => () => void
  /** Resolves when a commit of ours waits, other than those seen before, or `isOver`. */
  waits: (isOver?: () => boolean) => Promise<void>
  /** Cancels the wait that was seen last. */
  endWait: (how: 'pg_cancel_backend' | 'pg_terminate_backend') => Promise<void>
}

let isRunning: Promise<Pair> | undefined

/** Both servers of this process; they are started on first use, and end with it. */
export function ourPair(): Promise<Pair> {
  isRunning ??= startPair()
  return isRunning
}

async function startPair(): Promise<Pair> {
  const primary = await startServer()
  await startStandby(primary, { cluster_name: 'b' })
  await primary.ask(`alter system set synchronous_standby_names = '*'`)
  await primary.ask('select pg_reload_conf()')
  const senders = () =>
    primary.ask<{ pid: number }>(`select pid from pg_stat_replication where sync_state = 'sync'`)
  await until(WAIT_MAX_MS, 'a standby that counts', async () => (await senders()).length > 0)
  const [sender] = await senders()
  assert.ok(sender)
  const seen = new Set<string>()
  let last: number | undefined
  return {
    primary,
    holdBack() {
      process.kill(sender.pid, 'SIGSTOP')
      return () => process.kill(sender.pid, 'SIGCONT')
    },
    waits: (isOver = () => false) =>
      until(WAIT_MAX_MS, 'a commit that waits', async () => {
        const waiting = await primary.ask<{ pid: number; statement: string }>(WAITING)
        const found = waiting.find(({ statement }) => !seen.has(statement))
        if (found) seen.add(found.statement)
        last = found?.pid
        return found || isOver()
      }),
    async endWait(how) {
      await primary.ask(`select ${how}(${last})`)
    },
  }
}

/** A process of the server has begun each of its statements at another moment. */
const WAITING = `select pid, pid || ' ' || query_start as statement from pg_stat_activity
  where wait_event = 'SyncRep' and application_name = 'tranche'`

type Followed = { told: () => string; isOver: () => boolean; ended: Promise<void> }

/** The state of some work: '' while it runs, 'done', or the reason of its failure. */
export function followed(work: Promise<unknown>): Followed {
  let told = ''
  const ended = work.then(
    () => {
      told = 'done'
    },
    (error: Error) => {
      told = error.message
    },
  )
  return { told: () => told, isOver: () => told !== '', ended }
}

/** Fails when the work is reported as done before the standby has its commit, whose wait somebody cancels. */
export async function assertNotToldAlone(
  t: Pick<TestContext, 'after'>,
  { holdBack, waits, endWait }: Pair,
  how: Parameters<Pair['endWait']>[0],
  start: (holdBack: () => void) => Promise<unknown>,
): Promise<void> {
  let goOn = () => {}
  t.after(() => goOn())
  const isHeld = Promise.withResolvers<void>()
  const { told, isOver, ended } = followed(
    start(() => {
      goOn = holdBack()
      isHeld.resolve()
    }),
  )
  // Before that a commit waits as well, for a moment.
  await Promise.race([isHeld.promise, ended])
  await waits(isOver)
  assert.equal(told(), '')
  await endWait(how)
  // A commit waits again, or the work has been reported.
  await waits(isOver)
  assert.equal(told(), '')
  goOn()
  await ended
  assert.equal(told(), 'done')
}

// A proxy to a PostgreSQL server that is cut when a commit passes.

/**
 * The fate of the next commit: it arrives and its answer does not, or is unreadable; it does not arrive; or its answer
 * reports a rollback.
 */
export type Fate = 'answer lost' | 'answer garbled' | 'never arrives' | 'answered with rollback'

/** A server, by the folder of its socket. */
type Place = Pick<Server, 'folder'>
/** A test, or anything else with an end. */
type Ending = { after: (end: () => void) => void }

type Proxy = {
  url: string
  /**
   * Lets the next commit, or another statement, meet its fate; resolves then. `after` runs before anybody may connect
   * again.
   */
  next: (fate: Fate, after?: () => Promise<void>, statement?: string) => Promise<void>
  /** Ends every open connection. */
  cut: () => void
  /** Sets where connections lead from now on. */
  leadTo: (server: Place) => void
}

const COMMIT = 'commit\0'
const COMMITTED = Buffer.from('COMMIT\0')
const ROLLED_BACK = Buffer.from('ROLLBA\0')
/** The bytes of a message's kind and length. */
const HEADER_BYTES = 5
const A_ROW = Buffer.from('D')

export async function proxyTo(t: Ending, server: Place, database: string): Promise<Proxy> {
  let to = server
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  let plan: { fate: Fate; after: () => Promise<void>; statement: string; met: () => void } | null = null
  let open = Promise.resolve()
  const sockets = new Set<Socket>()

  async function carry(client: Socket): Promise<void> {
    await open
    const upstream = connect(`${to.folder}/.s.PGSQL.5432`)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    }
    let mine: typeof plan = null
    const meet = () => {
      client.destroy()
      open = mine?.after() ?? open
      mine?.met()
    }
    client.on('data', (bytes: Buffer) => {
      if (plan && bytes.includes(plan.statement)) [mine, plan] = [plan, null]
      if (mine?.fate !== 'never arrives') return void upstream.write(bytes)
      upstream.destroy()
      meet()
    })
    upstream.on('data', (bytes: Buffer) => {
      if (mine === null || !bytes.includes(COMMITTED)) return void client.write(bytes)
      if (mine.fate === 'answer lost') return meet()
      const at = bytes.indexOf(COMMITTED)
      if (mine.fate === 'answer garbled') bytes.set(A_ROW, at - HEADER_BYTES)
      else bytes.set(ROLLED_BACK, at)
      client.write(bytes)
      mine.met()
    })
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  }

  const listener = createServer((client) => void carry(client))
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    cut()
    listener.close()
  })
  return {
    url: `postgres://tranche@127.0.0.1:${(listener.address() as AddressInfo).port}/${database}`,
    next: (fate, after = async () => {}, statement = COMMIT) =>
      new Promise((met) => {
        plan = { fate, after, statement, met }
      }),
    cut,
    leadTo: (server) => {
      to = server
    },
  }
}

// A command that a database refuses: one sentence, in each format, and never a password.

export type Refusal = { exit: number; code: string; says: RegExp }

/** A command on a database fails with one sentence without the password, and each format has it. */
export async function assertRefused(
  db: string,
  { exit, code, says }: Refusal,
  argv = ['partner', 'list'],
): Promise<void> {
  // Imported late: on a server, the databases of the services wait for this module.
  const { runHere } = await import('./service.ts')
  const ways = [
    ['--db', db, '--json', ...argv],
    ['--db', db, ...argv],
  ]
  const outcomes = await Promise.all(ways.map(async (words) => ({ words, ...(await runHere(words)) })))
  for (const { words, ...outcome } of outcomes) {
    assert.doesNotMatch(outcome.out + outcome.err, new RegExp(PASSWORD))
    assert.equal(outcome.out, '')
    assert.equal(outcome.code, exit, outcome.err)
    const last = outcome.err.trimEnd().split('\n').at(-1) ?? ''
    if (!words.includes('--json')) assert.match(last, says)
    else assert.equal(JSON.parse(last).error.code, code)
  }
}
