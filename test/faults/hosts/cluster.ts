// A primary, its synchronous standby, and one address that leads to whichever of the two takes writes: what a team with
// two database machines and a floating address has.

import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { type Server, startServer, startStandby } from '../../support/postgres-server.ts'
import { until, within } from '../../support/within.ts'

/**
 * How an old primary ends: its processes fall over, or they stand still and are ended when the standby has taken over.
 */
export type End = 'killed' | 'frozen'

export type Cluster = {
  /** A folder that is always the present primary's: its socket is in it. */
  current: string
  /** The address of the database. */
  url: string
  /** Asks the primary, again while there is none. */
  ask: <Row extends object>(sql: string, values?: unknown[]) => Promise<Row[]>
  /** Ends the primary's first process by kill -9 and starts it anew. */
  crash: () => Promise<void>
  /** Lets the primary stand still for so long. */
  freeze: (meanwhile: () => Promise<void>) => Promise<void>
  /** Promotes the standby, leads everybody to it, and makes another standby. */
  failOver: (end: End) => Promise<void>
  /** Lets the standby stand still, or ends it by kill -9, for so long: commits wait. */
  withoutStandby: (end: End, meanwhile: () => Promise<void>) => Promise<void>
  stop: () => Promise<void>
}

const DATABASE = 'tranche'
/** The standby is known by it: a base backup that is being made must not pass for one. */
const NAME = 'tranche_host'
const SETTINGS = {
  cluster_name: NAME,
  synchronous_standby_names: NAME,
  wal_level: 'replica',
  shared_buffers: '64MB',
  min_wal_size: '32MB',
  max_wal_size: '256MB',
  wal_keep_size: '64MB',
  max_wal_senders: '6',
  // A standby that comes back looks for its primary at once, not after five seconds.
  wal_retrieve_retry_interval: '100ms',
}
const READY_MAX_MS = 60_000
const ASK_MAX_MS = 60_000

export async function startCluster(): Promise<Cluster> {
  const place = mkdtempSync(join(tmpdir(), 'tfo-'))
  const current = join(place, 'current')
  let primary = await startServer(SETTINGS)
  lead()
  let standby = await startStandby(primary, SETTINGS)
  await inStep()
  await primary.ask(`create database ${DATABASE}`)

  function lead(): void {
    const next = `${current}.next`
    symlinkSync(primary.folder, next)
    renameSync(next, current)
  }

  /** Resolves once the standby has all that the primary has, and commits wait for it. */
  function inStep(): Promise<void> {
    return until(READY_MAX_MS, 'the standby follows', async () => {
      const rows = await primary.ask(
        `select 1 from pg_stat_replication where application_name = '${NAME}' and state = 'streaming'
           and sync_state = 'sync' and flush_lsn is not null`,
      )
      return rows.length > 0
    })
  }

  async function ask<Row extends object>(sql: string, values: unknown[] = []): Promise<Row[]> {
    let rows: Row[] = []
    await until(ASK_MAX_MS, sql, async () => {
      const client = new pg.Client({ connectionString: primary.url(DATABASE) })
      client.on('error', () => {})
      await client.connect()
      try {
        rows = (await client.query(sql, values)).rows
      } finally {
        client.end().catch(() => {})
      }
      return true
    })
    return rows
  }

  const cluster: Cluster = {
    current,
    url: `postgres://tranche@localhost/${DATABASE}?host=${encodeURIComponent(current)}`,
    ask,

    async crash() {
      await fallOver(primary)
      await primary.again()
      await inStep()
    },

    async freeze(meanwhile) {
      const all = processesOf(primary)
      send(all, 'SIGSTOP')
      try {
        await meanwhile()
      } finally {
        send(all, 'SIGCONT')
      }
    },

    async failOver(end) {
      const old = primary
      const all = processesOf(old)
      if (end === 'killed') await fallOver(old)
      else send(all, 'SIGSTOP')
      await within(READY_MAX_MS, 'the standby is promoted', standby.ask('select pg_promote()'))
      primary = standby
      lead()
      // A client that is still connected to it learns only now that it is gone.
      send(all, 'SIGKILL')
      await old.stop()
      standby = await within(READY_MAX_MS, 'a standby is made', startStandby(primary, SETTINGS))
      await inStep()
    },

    async withoutStandby(end, meanwhile) {
      const all = processesOf(standby)
      if (end === 'killed') await fallOver(standby)
      else send(all, 'SIGSTOP')
      try {
        await meanwhile()
      } finally {
        if (end === 'killed') await standby.again()
        else send(all, 'SIGCONT')
      }
      await inStep()
    },

    async stop() {
      await Promise.all([primary.stop(), standby.stop()])
      rmSync(place, { recursive: true, force: true })
    },
  }
  return cluster
}

/** A server's first process and those that it has started. */
function processesOf({ folder }: Server): number[] {
  const [first = ''] = readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n')
  const others = execFileSync('pgrep', ['-P', first], { encoding: 'utf8' }).trim().split('\n')
  return [first, ...others].map(Number)
}

function send(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has ended.
    }
  }
}

/** Whether any of them is there, other than as a name that nobody has asked after. */
function anyRuns(pids: readonly number[]): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', pids.join()], { encoding: 'utf8' })
  return stdout.split('\n').some((state) => state !== '' && !state.startsWith('Z'))
}

/** Kills the first process. The others notice that it is gone, and end: before that nobody can take its place. */
async function fallOver(server: Server): Promise<void> {
  const all = processesOf(server)
  server.kill('SIGKILL')
  const from = performance.now()
  await until(READY_MAX_MS, 'the processes of a server end', async () => {
    if (performance.now() - from > OTHERS_MAX_MS) send(all, 'SIGKILL')
    return !anyRuns(all)
  })
}

const OTHERS_MAX_MS = 5_000
