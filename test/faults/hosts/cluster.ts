// A primary, its synchronous standby, and one address that leads to whichever of the two accepts writes: the setup of a
// team with two database machines and a floating address.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { seededRandom } from '../../../src/engine/backtest.ts'
import { machine } from '../../../src/machine.ts'
import { proxyTo, type Server, startServer, startStandby } from '../../support/postgres-server.ts'
import { finish, type Started, start } from '../../support/process.ts'
import { freePort, until, within } from '../../support/within.ts'
import { type Callee, createCalls, createPartner, type Partner } from '../partner.ts'

/**
 * The end of an old primary: its processes crash, or they are frozen and then killed after the standby has taken over.
 */
export type End = 'killed' | 'frozen'

export type Cluster = {
  /** A folder that is always the present primary's: its socket is in it. */
  current: string
  /** The address of the database. */
  url: string
  /** Queries the primary; tries again while there is none. */
  ask: <Row extends object>(sql: string, values?: unknown[]) => Promise<Row[]>
  /** Ends the primary's first process by kill -9 and restarts it. */
  crash: () => Promise<void>
  /** Freezes the primary for so long. */
  freeze: (meanwhile: () => Promise<void>) => Promise<void>
  /** Promotes the standby, redirects everybody to it, and makes another standby. */
  failOver: (end: End) => Promise<void>
  /** Freezes the standby, or ends it by kill -9, for so long: commits wait. */
  withoutStandby: (end: End, meanwhile: () => Promise<void>) => Promise<void>
  stop: () => Promise<void>
}

const DATABASE = 'tranche'
/** The standby's name, which tells it from a base backup in progress. */
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
  // A returning standby looks for its primary at once, not after five seconds.
  wal_retrieve_retry_interval: '100ms',
}
const READY_MAX_MS = 60_000
const ASK_MAX_MS = 60_000

async function startCluster(): Promise<Cluster> {
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
      const client = new pg.Client({
        connectionString: `${primary.url(DATABASE)}&options=-csearch_path%3Dtranche`,
      })
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

  return {
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
      // A client that is still connected learns only now that the primary is gone.
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
}

/** A server's first process and its children. */
export function processesOf({ folder }: Server): number[] {
  const [first = ''] = readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n')
  const others = execFileSync('pgrep', ['-P', first], { encoding: 'utf8' }).trim().split('\n')
  return [first, ...others].map(Number)
}

export function send(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal)
    } catch {
      // The process has ended.
    }
  }
}

/** Whether any of them runs; a zombie does not count. */
function anyRuns(pids: readonly number[]): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', pids.join()], { encoding: 'utf8' })
  return stdout.split('\n').some((state) => state !== '' && !state.startsWith('Z'))
}

/** Kills the first process. The others notice that and end: before then nobody can take its place. */
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

// The machines beside the database: four that serve, and four that tick, two of them in a loop as cron would.

/** The `url` of one that only ticks is empty. */
export type Host = Callee & {
  child: () => Started['child']
  /** Kills it; answers whether there was a process to kill. It is restarted while the rounds continue. */
  kill: () => Promise<boolean>
  /** Resolves when it is at work. */
  ready: () => Promise<void>
  /** Throws when it has ended by itself, or logged an error that no host should have. */
  assertSound: () => void
  /** Its last output on stderr. */
  said: () => string
  /** Ends it as an operator would; does not throw for its exit when something has `failed` before. */
  end: (failed: boolean) => Promise<void>
}

/** Starts commands on the database, by one of the ways to it. */
type Place = { start: (argv: readonly string[]) => Started }

const SAID_MAX = 3_000
const START_MAX_MS = 90_000
const END_MAX_MS = 60_000
const FEED = ['--price-feed', 'static:60000']
/** The text of a bug in a log or an output, which an unavailable database never causes. */
const BUG =
  /"err":\{"type":"(?!Problem|OutcomeUnknown)|Internal Server Error|^\s+at .*:\d+:\d+|"plans_failed":[1-9]/m

/** Starts a service that is restarted, on the same port, whenever it is killed. */
async function startService(name: string, place: Place, argv: readonly string[]): Promise<Host> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const begin = (): Started => place.start(['serve', '--port', String(port), '--log-level', 'warn', ...argv])
  let started = begin()
  // A service without a database at its start reports that and ends: its supervisor, such as systemd, restarts it.
  const isReady = () =>
    until(START_MAX_MS, `${name} is ready`, async () => {
      if (started.hasEnded()) {
        assert.match(started.err(), /^error: .+$/m)
        assert.doesNotMatch(started.err(), BUG)
        started = begin()
      }
      return (await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(START_MAX_MS) })).ok
    })
  const assertRuns = () => assert.ok(!started.hasEnded(), `${name} has ended: ${started.err()}`)
  let ready = isReady()
  await ready
  const host: Host = {
    name,
    url,
    child: () => started.child,
    disturbedAt: Number.NEGATIVE_INFINITY,

    async kill() {
      await ready
      assertRuns()
      host.disturbedAt = Number.POSITIVE_INFINITY
      started.child.kill('SIGKILL')
      await within(END_MAX_MS, `${name} is dead`, started.ended)
      started = begin()
      ready = isReady().then(() => {
        host.disturbedAt = performance.now()
      })
      // The caller that waits for it gets the error.
      ready.catch(() => {})
      return true
    },

    ready: () => ready,
    said: () => started.err().slice(-SAID_MAX),

    assertSound() {
      if (host.disturbedAt !== Number.POSITIVE_INFINITY) assertRuns()
      assert.doesNotMatch(started.err(), BUG)
    },

    async end(failed) {
      if (failed) return
      await ready
      started.child.kill('SIGTERM')
      const code = await within(END_MAX_MS, `${name} ends`, started.ended)
      assert.equal(code, 0, started.err())
      assert.doesNotMatch(started.err(), BUG)
    },
  }
  return host
}

/** The interval of ticks, and the limit of one, with the time that its database is away. */
const TICK_EVERY_MS = 2_000
const TICK_MAX_MS = 120_000

/** Starts a loop of ticks. A killed one is followed by the next. */
function startTicks(name: string, place: Place): Host {
  let stopping = false
  let current: Started | undefined
  let failure: unknown
  const loop = async (): Promise<void> => {
    while (!stopping) {
      current = place.start(['tick', ...FEED, '--json'])
      current.child.stdin.end()
      const code = await within(TICK_MAX_MS, `a tick of ${name}`, current.ended)
      assertTicked(code, current)
      await pause(TICK_EVERY_MS)
    }
  }
  const done = loop().catch((error) => {
    failure = error
  })
  return {
    name,
    url: '',
    child: () => current?.child as Started['child'],
    disturbedAt: Number.NEGATIVE_INFINITY,

    async kill() {
      const victim = current
      if (!victim?.child.kill('SIGKILL')) return false
      return (await within(END_MAX_MS, `${name} is dead`, victim.ended)) === 'SIGKILL'
    },

    ready: async () => {},
    said: () => current?.err().slice(-SAID_MAX) ?? '',

    assertSound() {
      if (failure) throw failure
    },

    async end(failed) {
      stopping = true
      if (failed) current?.child.kill('SIGKILL')
      await within(TICK_MAX_MS + END_MAX_MS, `${name} ends`, done)
      if (failure && !failed) throw failure
    },
  }
}

/** It has done its part, or was killed, or its database was away, which its message says in one sentence. */
function assertTicked(code: number | string, { out, err }: Started): void {
  assert.doesNotMatch(out() + err(), BUG)
  if (code === 'SIGKILL') return
  assert.ok([0, 1, 11].includes(code as number), `a tick ended with ${code}: ${out()}${err()}`)
  if (code !== 0) assert.ok('error' in JSON.parse(err()), err())
}

const SCHEDULED = ['--tick-every', '1s', ...FEED]

/** The process that started it ends it. */
const NEVER = { after: () => {} }

// Four services, four tickers, a partner in its two environments, and the pair of servers that all of them work on.

export type Scene = {
  cluster: Cluster
  /** The way of the first service and the first ticker to the server. */
  proxy: Awaited<ReturnType<typeof proxyTo>>
  services: readonly Host[]
  tickers: readonly Host[]
  partners: readonly [live: Partner, test: Partner]
  /** Decides the faults; the partner's actions have a generator of their own. */
  random: () => number
  start: (argv: readonly string[]) => Started
  /** Runs a command that must end with 0; answers its output. */
  run: (argv: readonly string[]) => Promise<string>
  /** Ends everything; as an operator would, unless something has failed. */
  end: (failed: boolean) => Promise<void>
}

const COMMAND_MAX_MS = 120_000
/** An advance takes a sandbox's plans through days. */
const PLANS_MAX = { live: Number.POSITIVE_INFINITY, test: 40 }

export async function openScene(seed: number): Promise<Scene> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-hosts-'))
  const random = seededRandom(seed)
  const children = new Set<Started['child']>()
  const ends: (() => unknown)[] = []
  const ending = { after: (end: () => unknown) => void ends.push(end) }
  const cluster = await startCluster()
  const proxy = await proxyTo(ending, { folder: cluster.current }, 'tranche')
  const optionsFor = (db: string) => ({ cwd: folder, env: { TRANCHE_DB: db, TRANCHE_TRUST_FAILOVER: 'on' } })
  const place = (db: string): Place => ({
    start(argv) {
      const started = start(NEVER, argv, optionsFor(db))
      children.add(started.child)
      started.ended.then(() => children.delete(started.child))
      return started
    },
  })

  async function run(argv: readonly string[]): Promise<string> {
    const done = await within(COMMAND_MAX_MS, argv.join(' '), finish(NEVER, argv, optionsFor(cluster.url)))
    assert.equal(done.code, 0, `${argv.join(' ')}: ${done.out}${done.err}`)
    return done.out
  }

  await run(['partner', 'create', 'acme', '--name', 'Acme'])
  const keyOf = async (env: string): Promise<string> =>
    JSON.parse(await run(['key', 'create', 'acme', '--env', env, '--json'])).key
  const keys = { live: await keyOf('live'), test: await keyOf('test') }
  const [direct, cut] = [place(cluster.url), place(proxy.url)]
  const services = await Promise.all(
    [cut, direct, direct, direct].map((where, i) => startService(`serve ${i + 1}`, where, [])),
  )
  const scheduling = await Promise.all(
    [cut, direct].map((where, i) => startService(`ticker ${i + 1}`, where, SCHEDULED)),
  )
  const tickers = [...scheduling, startTicks('ticker 3', direct), startTicks('ticker 4', direct)]
  const working = seededRandom(seed + 1)
  const partnerIn = (environment: 'live' | 'test') =>
    createPartner(environment, {
      calls: createCalls(keys[environment], services, working),
      random: working,
      clock: machine.clock,
      plansMax: PLANS_MAX[environment],
    })
  return {
    cluster,
    proxy,
    services,
    tickers,
    partners: [partnerIn('live'), partnerIn('test')],
    random,
    start: direct.start,
    run,

    async end(failed) {
      try {
        await Promise.all([...services, ...tickers].map((host) => host.end(failed)))
      } finally {
        for (const child of children) child.kill('SIGKILL')
        for (const end of ends) await end()
        await cluster.stop()
        rmSync(folder, { recursive: true, force: true })
      }
    },
  }
}
