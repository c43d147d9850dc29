// serve: the partner API over an open database, and the scheduler beside it.

import { Command, type Option } from 'commander'
import { frozenProblem } from '../../core/frozen.ts'
import { Problem, usage } from '../../core/problem.ts'
import { SECOND_MS } from '../../core/time.ts'
import type { Answering, ConnectionLimits } from '../../http/listen.ts'
import type { Ops } from '../../http/ops/endpoints.ts'
import type { Metrics } from '../../http/ops/metrics.ts'
import type { SandboxDesk } from '../../http/sandbox.ts'
import type { Tls } from '../../http/tls.ts'
import { CALLS_PER_KEY_MAX } from '../../http/turns.ts'
import type { Log, LogLevel } from '../../log.ts'
import type { Feed } from '../../price/feed.ts'
import type { Store } from '../../store/store.ts'
import type { SendWakeUp } from '../../webhook/wake-partners.ts'
import type { Cli } from '../context.ts'
import {
  addWebhookOptions,
  interval,
  intervalOrOff,
  priceFeedOption,
  setting,
  type WebhookOptions,
  type Webhooks,
  webhooksOf,
  wholeNumber,
} from '../options.ts'
import type { ShownCertificate, TlsOptions } from './certificate.ts'
import {
  OPS_CONNECTIONS_MAX,
  type OpsOptions,
  type OpsPlace,
  opsListenOption,
  opsOf,
  opsTokenOption,
} from './ops-options.ts'
import { createPing, type Ping, pingOption } from './ping.ts'
import type { OpenDesk } from './sandbox-desk.ts'
import type { Listeners } from './serving.ts'

/** How long an opening may take before it is logged. */
const OPENING_UNSAID_MS = 2_000
/** Most failures of a start happen within this time; a migration may take minutes, and calls are answered meanwhile. */
const START_WAITS_MS = 10_000
/** The store's cache of a file: calls touch few pages each, and the system caches the others. */
const CACHE_KIB = 8_192

type ServeOptions = WebhookOptions &
  TlsOptions &
  ConnectionOptions &
  OpsOptions & {
    port: number
    tickEvery: number | null
    priceFeed: string
    ping?: URL
    rateLimit?: number
    callsPerKey?: number
    sandboxApi: 'on' | 'off'
    logFormat?: 'json' | 'pretty'
    logLevel: LogLevel
    drainLimit: number
    create: boolean
  }

/** As the parser gives it, which has no value for "absent". */
type Given = Omit<ServeOptions, 'tickEvery' | 'opsListen'> & {
  tickEvery: number | 'off'
  opsListen: OpsPlace | 'off'
}

export function serveCommand(cli: Cli): Command {
  return addWebhookOptions(new Command('serve'))
    .description('answer the partner API; with --tick-every also run the scheduler')
    .option('--no-create', 'refuse to start where there is no database at --db, instead of making one')
    .addOption(setting('--host <address>', 'where to listen').default('127.0.0.1'))
    .addOption(
      setting('--port <number>', '0 for any free one').argParser(wholeNumber(0, 65_535)).default(8080),
    )
    .addOption(
      setting('--tick-every <time>', 'tick this often, such as 60s; off leaves it to cron')
        .argParser(intervalOrOff)
        .default('off'),
    )
    .addOption(setting('--tls-cert <file>', 'certificate chain (PEM)'))
    .addOption(setting('--tls-key <file>', 'its private key (PEM)'))
    .option('--tls-self-signed', 'for a first try: TLS with a certificate made at this start')
    .addOption(priceFeedOption())
    .addOption(pingOption())
    .addOption(limitOption('--rate-limit', 'requests a second for each key; no limit by default'))
    .addOption(
      limitOption('--calls-per-key', `the most calls of one key at once; ${CALLS_PER_KEY_MAX} by default`),
    )
    .addOption(
      limitOption(
        '--max-connections',
        `by default what the limit of open files leaves, ${CONNECTIONS_MAX} at most`,
      ),
    )
    .addOption(
      limitOption(
        '--max-connections-per-address',
        'by default a quarter of them; raise it for a reverse proxy on another machine',
      ),
    )
    .addOption(
      setting('--sandbox-api <state>', 'off hides the routes with which partners drive their sandboxes')
        .choices(['on', 'off'])
        .default('on'),
    )
    .addOption(
      setting('--log-format <format>', 'by default json unless on a terminal').choices(['json', 'pretty']),
    )
    .addOption(
      setting('--log-level <level>', 'the lowest level that is logged; debug adds calls to the ops endpoints')
        .choices(['debug', 'info', 'warn', 'error'])
        .default('info'),
    )
    .addOption(opsListenOption())
    .addOption(opsTokenOption())
    .addOption(
      setting('--drain-limit <time>', 'how long a stop waits for calls in flight')
        .argParser(interval)
        .default(DRAIN_LIMIT_MS, `${DRAIN_LIMIT_MS / SECOND_MS}s`),
    )
    .action(async (given: Given) => {
      const [tickEvery, opsListen] = [orNull(given.tickEvery), orNull(given.opsListen)]
      const options = { ...given, tickEvery, opsListen }
      // From here on as the user that reads the files again at a SIGHUP.
      await cli.database()
      // Options are checked before a port is opened, or a database is opened or created.
      await serve(cli, { ...options, ...(await partsOf(cli, options).catch(refuseSetting)) })
    })
}

/** A file in a setting that cannot be used is a wrong setting: another start would find the same. */
function refuseSetting(error: unknown): never {
  throw error instanceof Problem && error.code !== 'bad_file' ? error : usage((error as Error).message)
}

const orNull = <T>(given: T | 'off'): T | null => (given === 'off' ? null : given)

const limitOption = (flag: string, words: string): Option =>
  setting(`${flag} <number>`, words).argParser(wholeNumber(1, 1_000_000))

type Parts = {
  log: Log
  tls: Tls
  connections: ConnectionLimits
  observe: Feed
  heartbeat: Ping
  ops: Ops
  metrics: Metrics
} & Webhooks

async function partsOf(cli: Cli, options: ServeOptions): Promise<Parts> {
  const [{ createLog }, { createFeed }, { tlsOf }] = await Promise.all([
    import('../../log.ts'),
    import('../../price/feed.ts'),
    import('./certificate.ts'),
  ])
  const { clock } = cli.machine
  const log = createLog(
    options.logFormat ?? (cli.streams.err.isTTY ? 'pretty' : 'json'),
    clock,
    options.logLevel,
  )
  const warn = (message: string): void => log.warn({}, message)
  return {
    log,
    tls: tlsOf(options),
    connections: connectionLimitsOf(options),
    observe: createFeed(options.priceFeed, { clock, warn }),
    heartbeat: createPing(options.ping, warn),
    ...(await opsOf(cli, options, log)),
    ...(await webhooksOf(options)),
  }
}

/** Listens first and then opens the database: during a migration, or a wait for its lock, the process answers. */
async function serve(cli: Cli, options: ServeOptions & Parts): Promise<void> {
  const { createApp } = await import('../../http/app.ts')
  const serving = await import('./serving.ts')
  const { showCertificate } = await import('./certificate.ts')
  const { log } = options
  // An impossible address is refused before there is anything to end.
  const database = await cli.database()
  serving.keepHeapSmall()
  const renewal = { now: () => {} }
  serving.handleOtherSignals(() => renewal.now())
  const stopped = serving.stopSignal(cli)
  const appOver = (store: Store | null, sandbox: SandboxDesk | null) =>
    createApp({ ...options, store, sandbox, machine: cli.machine, rateLimit: options.rateLimit ?? null })
  const front = { app: appOver(null, null) }
  const answering: Answering = { fetch: (request) => front.app.fetch(request) }
  const listeners = await serving.openListeners(answering, { ...options, uuid: cli.machine.uuid })
  const certificate = showCertificate({
    log,
    listener: listeners.api,
    options,
    clock: cli.machine.clock,
    machine: cli.machine.host(),
    port: new URL(listeners.api.url).port,
    onShown: options.metrics.noteCertificate,
  })
  renewal.now = certificate.renew
  const db = database.shownInFull
  // Usually, the first line says that all is ready. Only a wait is logged, with its cause.
  const waiting = setTimeout(
    () => log.info({ ...addressesOf(listeners), db }, 'opening the database'),
    OPENING_UNSAID_MS,
  )
  const tellUp = serving.tellSupervisor(log)
  const startEnds = setTimeout(() => tellUp('opening the database'), START_WAITS_MS).unref()

  let isOpen = false
  let isStopping = false
  stopped.then(() => {
    isStopping = true
  })
  const openAndRun = async (): Promise<void> => {
    await serving.migrateAside(database, cli.globals().db, { stopped, log })
    if (isStopping) return
    const isNew = await database.isMissing()
    await cli.withStore(
      async (store) => {
        isOpen = true
        clearTimeout(waiting)
        clearTimeout(startEnds)
        const counted = options.metrics.counting(store)
        const send = countedSend(options)
        const sandbox = options.sandboxApi === 'on' ? await import('./sandbox-desk.ts') : null
        const desk = sandbox?.createSandboxDesk({ store: counted, machine: cli.machine, send, log }) ?? null
        front.app = appOver(counted, desk)
        await options.ops.opened(store)
        tellUp(`answers at ${listeners.api.url}`)
        await run(cli, store, { ...options, send, desk, listeners, certificate, stopped, isNew, db })
      },
      { create: options.create, cacheKib: CACHE_KIB, checkpointsAside: true, saysMoved: true, runsOn: true },
    )
  }
  const served = openAndRun()
  try {
    await Promise.race([served, stopped.then(() => (isOpen ? served : log.info({}, 'stopped')))])
  } finally {
    clearTimeout(waiting)
    clearTimeout(startEnds)
    listeners.end()
    cli.endSoon()
  }
}

const countedSend =
  ({ send, metrics }: Parts): SendWakeUp =>
  async (delivery) => {
    const outcome = await send(delivery)
    metrics.noteDelivery(outcome.reason === null)
    return outcome
  }

type Running = ServeOptions &
  Parts & {
    desk: OpenDesk | null
    listeners: Listeners
    certificate: ShownCertificate
    stopped: Promise<string>
    isNew: boolean
    db: string
  }

/** Serves from an open database until it is told to stop, and then until running calls are done. */
async function run(cli: Cli, store: Store, options: Running): Promise<void> {
  const { startScheduler } = await import('./serving.ts')
  const { log, observe, heartbeat: ping, send, desk, listeners } = options
  const scheduler =
    options.tickEvery === null
      ? null
      : startScheduler({ store, machine: cli.machine, observe, send, log, ping }, options.tickEvery)
  const where = { ...addressesOf(listeners), db: options.db }
  log.info({ ...where, tick_every_ms: options.tickEvery }, 'listening')
  options.certificate.keepIn(store)
  // Only a warning: a short outage of the database does not end a service that has started.
  const partners = await store.listPartners().catch(() => null)
  if (partners?.length === 0)
    log.warn({ db: where.db }, options.isNew ? `${MADE}; ${NO_PARTNER}` : NO_PARTNER)
  const frozen = await store.readFrozen().catch(() => null)
  // Its own ticks log that it is frozen; on a moved database they only fail.
  if (frozen && (options.tickEvery === null || frozen.kind === 'moved'))
    log.warn({ db: where.db }, frozenProblem(frozen).message)
  const signal = await options.stopped
  const { drainLimit: limitMs } = options
  log.info({ signal }, 'stopping: finishing what is in flight')
  const drained = Promise.all([listeners.close(), scheduler?.stop(), desk?.stop()])
  const inTime = await Promise.race([drained.then(() => true), after(limitMs).then(() => false)])
  if (!inTime) log.warn({ waited_ms: limitMs }, 'stopped with calls still in flight')
  log.info({}, 'stopped')
}

const DRAIN_LIMIT_MS = 30_000

const after = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref())

const MADE = 'there was no database here, so a new one was made'
const NO_PARTNER =
  'this database has no partner yet, so every call is answered 401: add one with `tranche partner create SLUG --name NAME`, or name another database with --db'

const addressesOf = ({ api, ops }: Listeners) => ({ url: api.url, ...(ops && { ops_url: ops.url }) })

// How many connections serve accepts: by default, as many as leave room for the files of the database.

/**
 * Descriptors that connections must leave free: for the database and its log, fifty deliveries at once with the sockets
 * of their look-ups, one look-up for each tenant, and files that Node opens.
 */
export const DESCRIPTORS_KEPT = 160
/** More than any partner needs; a higher limit would only offer memory to an attacker. */
export const CONNECTIONS_MAX = 10_000
const CONNECTIONS_MIN = 16
/** The share of all connections that one address may have by default. */
const ADDRESS_SHARE = 4

type ConnectionOptions = { maxConnections?: number; maxConnectionsPerAddress?: number }

export function connectionLimitsOf(
  options: ConnectionOptions & { opsListen?: object | null },
): ConnectionLimits {
  const kept = DESCRIPTORS_KEPT + (options.opsListen ? OPS_CONNECTIONS_MAX : 0)
  // The limit of descriptors is read only where it decides.
  const connectionsMax =
    options.maxConnections ?? Math.min(CONNECTIONS_MAX, Math.max(CONNECTIONS_MIN, descriptorsMax() - kept))
  const share = Math.max(1, Math.floor(connectionsMax / ADDRESS_SHARE))
  return { connectionsMax, connectionsPerAddressMax: options.maxConnectionsPerAddress ?? share }
}

/** The soft limit of open files, which Node raises to the hard one; infinite where no limit can be read. */
function descriptorsMax(): number {
  const { report } = process
  // The rest of the report would look up names in the network, which takes time.
  Object.assign(report, { excludeNetwork: true })
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft: number | string } } }
  const soft = Number(userLimits?.open_files?.soft)
  return Number.isFinite(soft) ? soft : Number.POSITIVE_INFINITY
}
