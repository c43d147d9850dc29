// The parts of serve: its listeners, the scheduler beside it, and its reactions to signals. No other command loads
// them.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { isSea } from 'node:sea'
import { setFlagsFromString } from 'node:v8'
import { frozenProblem } from '../../core/frozen.ts'
import { Problem, reasonInWords } from '../../core/problem.ts'
import type { PassOptions } from '../../engine/pass.ts'
import { type Answering, type ConnectionLimits, type Listener, listenOn } from '../../http/listen.ts'
import { createOpsApp, type Ops } from '../../http/ops/endpoints.ts'
import type { Tls } from '../../http/tls.ts'
import type { Log } from '../../log.ts'
import type { Database } from '../../store/database.ts'
import { isPending } from '../../store/migrations.ts'
import { type SendWakeUp, wakePartners } from '../../webhook/wake-partners.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { stopGently } from '../terminal.ts'
import { OPS_CONNECTIONS_MAX, type OpsPlace } from './ops-options.ts'
import type { Ping } from './ping.ts'
import { nameFailures, type Passed, passJson, passUnlessFrozen } from './tick.ts'

// Notifications to systemd about a service that it started: that it is up, and then, again and again, that it is alive.
// Node has no Unix datagram sockets, so systemd's own program sends them.

/** How often a service reports that it is alive, within the time after which it would count as hung. */
const SIGNS_OF_LIFE = 6

/**
 * Returns the report that the service is up, with the words that `systemctl status` shows. Sends nothing where systemd
 * does not listen. A process is alive as long as its timers fire: only one that is stuck does not report at all.
 */
export function tellSupervisor(log: Log): (words: string) => void {
  const { NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID } = process.env
  if (!NOTIFY_SOCKET) return () => {}
  let hasFailed = false
  const failed = (why: string): void => {
    if (!hasFailed) log.error({ error: why }, 'systemd-notify failed: systemd does not learn how serve is')
    hasFailed = true
  }
  const tell = (...words: string[]): void => {
    spawn('systemd-notify', words, { stdio: 'ignore' })
      .on('error', (error) => failed(reasonInWords(error)))
      .on('exit', (code) => (code === 0 ? undefined : failed(`it ended with ${code}`)))
  }
  const isWatched = WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === process.pid
  const everyMs = Number(WATCHDOG_USEC) / 1000 / SIGNS_OF_LIFE
  if (isWatched && everyMs > 0) setInterval(() => tell('WATCHDOG=1'), everyMs).unref()
  return (words) => tell('--ready', `--status=${words}`)
}

export type Listeners = { api: Listener; ops: Listener | null } & Pick<Listener, 'close' | 'end'>
type ListenersOptions = {
  host: string
  port: number
  tls: Tls
  connections: ConnectionLimits
  ops: Ops
  opsListen: OpsPlace | null
  log: Log
  uuid: () => string
}

/** Opens both or none. The listener of operations is plain HTTP: it is for this machine, or behind a tunnel. */
export async function openListeners(answering: Answering, options: ListenersOptions): Promise<Listeners> {
  const { host, port, tls, connections, ops, opsListen, log, uuid } = options
  const common = {
    uuid,
    onTurnedAway: (reason: string) => log.warn({ reason }, 'connections are turned away'),
  }
  const api = await listenOn(answering, { host, port, tls, ...common, ...connections })
  if (opsListen === null) return { api, ops: null, close: api.close, end: api.end }
  const limits = {
    connectionsMax: OPS_CONNECTIONS_MAX,
    connectionsPerAddressMax: Math.min(OPS_CONNECTIONS_MAX, connections.connectionsPerAddressMax),
  }
  try {
    const operations = await listenOn(createOpsApp({ ops, log, uuid }), {
      ...opsListen,
      tls: null,
      ...common,
      ...limits,
    })
    return {
      api,
      ops: operations,
      close: async () => void (await Promise.all([api.close(), operations.close()])),
      end: () => [api, operations].map(({ end }) => end()),
    }
  } catch (error) {
    await api.close()
    throw error
  }
}

// The scheduler inside serve: a pass at once and then at every interval.

type SchedulerOptions = PassOptions & { send: SendWakeUp; log: Log; ping: Ping }

/** A pass that fails is logged and the next one tries again. `stop` waits for a running pass. */
export function startScheduler(options: SchedulerOptions, everyMs: number): { stop: () => Promise<void> } {
  const { store, machine, send, log, ping } = options
  const underWay = new Set<Promise<void>>()
  let timer: NodeJS.Timeout | undefined
  /** When the freeze began that was logged last: it is logged once, not at every interval for days. */
  let knownFrozen: number | null = null
  let stopping = false

  const follow = (work: Promise<void>): void => {
    const tracked = work.finally(() => underWay.delete(tracked))
    underWay.add(tracked)
  }

  async function pass(): Promise<void> {
    const started = performance.now()
    try {
      const passed = await passUnlessFrozen(options)
      const { result, frozen } = passed
      const durationMs = performance.now() - started
      const stop = frozen && frozenProblem(frozen).message
      if (stop !== null && frozen?.at !== knownFrozen) log.warn({}, stop)
      knownFrozen = frozen?.at ?? null
      const failures = await nameFailures(store, result?.failed ?? [])
      for (const failure of failures) log.error({}, failure)
      follow(finish(passed, durationMs))
      // As for a tick from cron, a pass prevented by another reports nothing.
      if (frozen || result) follow(ping(stop ?? (failures.join('\n') || null)))
    } catch (error) {
      const why = error instanceof Problem ? { code: error.code, error: error.message } : { err: error }
      log.error(why, 'tick failed')
      follow(ping((error as Error).message))
    }
    if (!stopping) timer = setTimeout(next, Math.max(0, everyMs - (performance.now() - started)))
  }

  /** The lock of the pass is released by now, so a slow receiver does not delay the next pass. */
  async function finish({ result, frozen }: Passed, durationMs: number): Promise<void> {
    const warn = (message: string, fields: object): void => log.warn(fields, message)
    const woken = result && (await wakePartners(result, { store, send: async () => send, warn }))
    log.info(passJson({ result, frozen, woken, now: machine.clock(), durationMs }), 'tick')
  }

  const next = (): void => follow(pass())
  next()

  return {
    async stop() {
      stopping = true
      clearTimeout(timer)
      while (underWay.size > 0) await Promise.all(underWay)
    },
  }
}

// Migrations before a service opens its database. SQLite backs up and migrates without a break: minutes in which this
// process would answer nobody. So another process does it.

/**
 * Runs `tranche migrate` when the database exists and needs it. If that fails, opening the database afterwards fails in
 * the same way and says so. `stopped` ends it early: a migration is one transaction, so it is undone.
 */
export async function migrateAside(
  database: Database,
  db: string,
  { stopped, log }: { stopped: Promise<unknown>; log: Log },
): Promise<void> {
  const program = ownProgram()
  if (program === null || !database.migratesAside || !(await isBehind(database))) return
  log.info({}, 'migrating the database')
  const child = spawn(process.execPath, [...program, 'migrate', '--db', db, '--json'], { stdio: 'ignore' })
  const ended = once(child, 'close').catch(() => {})
  await Promise.race([ended, stopped.then(() => child.kill())])
}

/** The words before the arguments when this program is started; null when this process is some other program. */
function ownProgram(): string[] | null {
  if (isSea()) return []
  const script = process.argv[1]
  return script?.endsWith('tranche.mjs') ? [script] : null
}

/** Whether it exists, with the schema of an earlier version. */
async function isBehind(database: Database): Promise<boolean> {
  const states = await database.migrationStates().catch(() => [])
  return states.some(isPending) && !states.every(isPending)
}

/** Set while a service runs: as options of the executable they would cost every start its compiled code. */
export function keepHeapSmall(): void {
  // V8 allocates objects that often survive its nursery as old ones: here, pieces of calls that wait for their turn or
  // their commit. Once dead, each of them would keep its whole call in memory until the next full collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/** Resolves at the first signal to stop; a second one, of either kind, ends the process at once. */
export function stopSignal(cli: Cli): Promise<NodeJS.Signals> {
  const { signal } = stopGently(() => process.exit(EXIT.interrupted))
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => {
      if (signal.reason === 'SIGINT') cli.exitWith(EXIT.interrupted)
      resolve(signal.reason)
    })
  })
}

/** Does `reload` at SIGHUP, which is also what a terminal sends when it is closed, and nothing at SIGUSR2. */
export function handleOtherSignals(reload: () => void): void {
  process.on('SIGHUP', reload)
  process.on('SIGUSR2', () => {})
}
