// A real PostgreSQL server for tests: in a folder of its own, over a socket only, stopped when its process ends. Each
// test has a database of its own, copied from one with the schema in it.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chownSync, existsSync, globSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { migrate } from '../../src/store/postgres/server/migrate.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'

/** Where Debian puts the programs of the server: the newest, as none of them is on PATH. */
export const serverPrograms = (): string | undefined =>
  globSync('/usr/lib/postgresql/*/bin').sort(byVersion).at(-1)

const byVersion = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true })

export type Server = {
  folder: string
  process: ChildProcess
  /** The address of a database of this server. */
  url: (database: string) => string
  /** Asks the server itself, as its superuser. */
  ask: <Row extends object>(sql: string, database?: string) => Promise<Row[]>
  stop: () => void
}

const TEMPLATE = 'template_tranche'
let running: Promise<Server> | undefined

/** The server of this process, started when it is first asked for. */
export function ourServer(): Promise<Server> {
  running ??= startServer().then(async (server) => {
    await server.ask(`create database ${TEMPLATE}`)
    const pool = openPool(server.url(TEMPLATE))
    await migrate(pool, Date.UTC(2026, 0, 5) as never)
    await pool.end()
    return server
  })
  return running
}

/** The address of a database that is a test's alone: of the same name the same one. */
export async function ownDatabase(name: string): Promise<string> {
  const server = await ourServer()
  const database = `t${createHash('sha256').update(name).digest('hex').slice(0, 20)}`
  const there = await server.ask(`select 1 as one from pg_database where datname = '${database}'`)
  if (there.length === 0)
    await server.ask(`create database ${database} template ${TEMPLATE} strategy file_copy`)
  return server.url(database)
}

/** Makes a cluster and starts it. `settings` go before those that make it fast and forgetful. */
export async function startServer(settings: Record<string, string> = {}): Promise<Server> {
  const bin = serverPrograms()
  if (!bin) throw new Error('no PostgreSQL server is installed')
  const folder = mkdtempSync(join(tmpdir(), 'tpg-'))
  const owner = ownerOf(folder)
  const data = join(folder, 'data')
  execFileSync(
    join(bin, 'initdb'),
    ['-D', data, '--no-sync', '-A', 'trust', '--locale=C', '-E', 'UTF8', '-U', 'tranche'],
    { ...owner, stdio: 'pipe' },
  )
  return runServer(folder, settings)
}

const FAST = { fsync: 'off', full_page_writes: 'off', max_connections: '200', max_wal_size: '4GB' }

/** Starts the cluster that is in a folder. */
export async function runServer(folder: string, settings: Record<string, string> = {}): Promise<Server> {
  const bin = serverPrograms() ?? ''
  const options = Object.entries({
    ...FAST,
    listen_addresses: '',
    unix_socket_directories: folder,
    ...settings,
  })
  const child = spawn(
    join(bin, 'postgres'),
    ['-D', join(folder, 'data'), ...options.flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    { ...ownerOf(folder), stdio: ['ignore', 'ignore', 'pipe'] },
  )
  child.stderr?.resume()
  child.unref()
  ;(child.stderr as unknown as { unref?: () => void } | null)?.unref?.()
  const url = (database: string): string =>
    `postgres://tranche@localhost:${settings.port ?? 5432}/${database}?host=${encodeURIComponent(folder)}`
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
  const stop = (): void => {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', stop)
  await isReady(ask, child)
  return { folder, process: child, url, ask, stop }
}

async function isReady(ask: Server['ask'], child: ChildProcess): Promise<void> {
  for (const end = performance.now() + 30_000; ; ) {
    try {
      await ask('select 1')
      return
    } catch (error) {
      if (child.exitCode !== null || performance.now() > end) throw error
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

/** The server refuses to run as root: then it runs as the user that Debian made for it. */
function ownerOf(folder: string): { uid?: number; gid?: number; cwd: string } {
  if (process.getuid?.() !== 0) return { cwd: folder }
  const id = (option: string) => Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }))
  const [uid, gid] = [id('-u'), id('-g')]
  if (existsSync(folder)) chownSync(folder, uid, gid)
  return { uid, gid, cwd: folder }
}
