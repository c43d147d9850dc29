// A real PostgreSQL server for tests: in a folder of its own, over a socket only, gone when its process ends, however
// that ends. Each test has a database of its own, copied from one with the schema in it.

import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { migrate } from '../../src/store/postgres/server/migrate.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { serverProgram } from './tools.ts'

export type Server = {
  folder: string
  /** The address of a database of this server. */
  url: (database: string, user?: string) => string
  /** Asks the server itself, as its superuser. */
  ask: <Row extends object>(sql: string, database?: string) => Promise<Row[]>
  /** Sends the server's first process a signal: SIGQUIT has it fall over, SIGINT stop its work and end. */
  kill: (signal: NodeJS.Signals) => void
  /** Starts it anew in its folder once it has ended, however it did. */
  again: () => Promise<void>
  /** Ends it and removes its folder. */
  stop: () => Promise<void>
}

const TEMPLATE = 'template_tranche'
let running: Promise<Server> | undefined
let started: Server | undefined

/** The server of this process, started when it is first asked for. */
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

/** The address of a database that is a test's alone: of the same name the same one. */
export async function ownDatabase(name: string): Promise<string> {
  const server = await ourServer()
  const database = databaseName(name)
  const there = await server.ask(`select 1 as one from pg_database where datname = '${database}'`)
  if (there.length === 0) await copyTemplate(database, server.ask)
  made.add(database)
  return server.url(database)
}

/**
 * Makes a database with nothing but the schema in it, on a server that is `ourServer` of this process or of another.
 */
export async function copyTemplate(name: string, ask: (sql: string) => Promise<unknown>): Promise<void> {
  await ask(`create database ${name} template ${TEMPLATE} strategy file_copy`)
}

/**
 * The same with nothing in it, unless it is there. The server must have been started, as nothing is waited for here.
 */
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

/** Makes a cluster and starts it. `settings` go before those that make it fast and forgetful. */
export async function startServer(settings: Record<string, string> = {}): Promise<Server> {
  const folder = mkdtempSync(join(shortFolder(), 'tpg-'))
  const owner = ownerOf(folder)
  // Somebody may have tidied up its folder meanwhile.
  if (!pristine || !existsSync(pristine)) pristine = makeCluster()
  execFileSync('cp', ['-R', pristine, join(folder, 'data')], owner)
  return runServer(folder, settings)
}

/** What initdb makes, made once in a process: a copy takes a tenth of the time. */
let pristine: string | undefined

function makeCluster(): string {
  const folder = mkdtempSync(join(shortFolder(), 'tpg-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const data = join(folder, 'data')
  const settings = [
    '--no-sync',
    '--data-checksums',
    '-A',
    'trust',
    '--locale=C',
    '-E',
    'UTF8',
    '-U',
    'tranche',
  ]
  execFileSync(serverProgram('initdb'), ['-D', data, ...settings], { ...ownerOf(folder), stdio: 'pipe' })
  return data
}

/** A copy of a running server that follows it; it becomes a server of its own by `select pg_promote()`. */
export async function startStandby(of: Server, settings: Record<string, string> = {}): Promise<Server> {
  const folder = mkdtempSync(join(shortFolder(), 'tpg-'))
  const { username, port } = new URL(of.url('postgres'))
  const source = `host=${of.folder} port=${port} user=${username}`
  // -R has it follow; without a checkpoint at once it would wait minutes for the next one.
  const argv = ['-D', join(folder, 'data'), '-d', source, '-R', '--checkpoint=fast', '--no-sync']
  await promisify(execFile)(serverProgram('pg_basebackup'), argv, ownerOf(folder))
  return runServer(folder, settings)
}

const FAST = { fsync: 'off', full_page_writes: 'off', max_connections: '200', max_wal_size: '4GB' }

/**
 * Holds the server, starts it anew for each line of its input, and waits for the end of that, which comes with the end
 * of the process that holds the other end of it, kill -9 included: then it ends the server and removes the folder.
 */
const KEEPER = `while "$@" >> "$0/log" 2>&1 & server=$!; read -r line; do :; done
  kill -CONT $server; kill -QUIT $server; wait; rm -rf "$0"`

/** Starts the cluster that is in a folder. */
export async function runServer(folder: string, settings: Record<string, string> = {}): Promise<Server> {
  const all = { ...FAST, listen_addresses: '', unix_socket_directories: folder, ...settings }
  const options = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const command = [serverProgram('postgres'), '-D', join(folder, 'data'), ...options]
  const keeper = spawn('sh', ['-c', KEEPER, folder, ...command], {
    ...ownerOf(folder),
    // An interruption of the terminal is not for it.
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
    // Processes of the one before may still be about to end, and keep the next one out.
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

/** Resolves once it answers. Throws with its log when it does not begin to run, or not in time. */
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

/** What a socket's path may be at most, and what the server puts behind that of a folder of ours. */
const SOCKET_BYTES_MAX = 107
const SOCKET = '/tpg-123456/.s.PGSQL.5432'

/** The folder for temporary files, or another one where its name is too long, or where the server's user may not go. */
function shortFolder(): string {
  const fits = (folder: string) => Buffer.byteLength(folder + SOCKET) <= SOCKET_BYTES_MAX && isOpen(folder)
  const found = [tmpdir(), '/dev/shm', '/tmp'].find(fits)
  if (found === undefined) throw new Error('no folder for temporary files is good for a server')
  return found
}

/** Whether another user may pass through it and all above it. */
const isOpen = (folder: string): boolean =>
  process.getuid?.() !== 0 ||
  (existsSync(folder) && (statSync(folder).mode & 0o001) !== 0 && (folder === '/' || isOpen(dirname(folder))))

/** The server refuses to run as root: then it runs as the user that Debian made for it. */
function ownerOf(folder: string): { uid?: number; gid?: number; cwd: string } {
  if (process.getuid?.() !== 0) return { cwd: folder }
  const id = (option: string) => Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }))
  const [uid, gid] = [id('-u'), id('-g')]
  chownSync(folder, uid, gid)
  return { uid, gid, cwd: folder }
}
