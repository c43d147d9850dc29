import { Command, InvalidArgumentError, Option } from 'commander'
import { Problem } from '../core/problem.ts'
import type { UrlGuard } from '../http/route.ts'
import type { Log } from '../log.ts'
import type { Feed } from '../price/feed.ts'
import type { Store } from '../store/store.ts'
import type { Cli } from './cli.ts'
import { EXIT } from './exit.ts'
import { durationOrOff, wholeNumber } from './options.ts'
import { priceFeedOption, tickJson } from './tick.ts'

/** How long a stop waits for calls in flight before it gives up on them. */
const DRAIN_MAX_MS = 30_000

type ServeOptions = {
  host: string
  port: number
  tickEvery: number | null
  tlsCert?: string
  tlsKey?: string
  priceFeed: string
  rateLimit?: number
  logFormat?: 'json' | 'pretty'
  webhookAllowCidr: string[]
}

export function serveCommand(cli: Cli): Command {
  return new Command('serve')
    .description('answer the partner API; with --tick-every also run the scheduler')
    .addOption(new Option('--host <address>', 'where to listen').env('TRANCHE_HOST').default('127.0.0.1'))
    .addOption(
      new Option('--port <number>', '0 for any free one')
        .env('TRANCHE_PORT')
        .argParser(wholeNumber(0, 65_535))
        .default(8080),
    )
    .addOption(
      new Option('--tick-every <time>', 'run a pass this often, such as 60s; off leaves it to cron')
        .env('TRANCHE_TICK_EVERY')
        .argParser(durationOrOff)
        .default(null, 'off'),
    )
    .addOption(new Option('--tls-cert <file>', 'certificate chain (PEM)').env('TRANCHE_TLS_CERT'))
    .addOption(new Option('--tls-key <file>', 'its private key (PEM)').env('TRANCHE_TLS_KEY'))
    .addOption(priceFeedOption())
    .addOption(
      new Option('--rate-limit <number>', 'requests a second for each key; no limit by default')
        .env('TRANCHE_RATE_LIMIT')
        .argParser(wholeNumber(1, 1_000_000)),
    )
    .addOption(
      new Option('--log-format <format>', 'by default json unless on a terminal')
        .choices(['json', 'pretty'])
        .env('TRANCHE_LOG_FORMAT'),
    )
    .addOption(webhookAllowOption())
    .action(async (options: ServeOptions) => {
      // What was asked for is checked before a database is opened, or made.
      const parts = await partsOf(options)
      await cli.withStore(async (store) => serve(cli, store, { ...options, ...parts }), { create: true })
    })
}

export const webhookAllowOption = () =>
  new Option('--webhook-allow-cidr <range>', 'let webhooks reach this range (repeatable)')
    .argParser((text: string, others: string[]) => {
      if (!/^[0-9A-Fa-f:.]+\/\d{1,3}$/.test(text))
        throw new InvalidArgumentError('Give a range such as 10.0.0.0/8.')
      return [...others, text]
    })
    .default([], 'none')

type Parts = { tls: ReturnType<typeof tlsOf>; guard: UrlGuard; observe: Feed }

async function partsOf(options: ServeOptions): Promise<Parts> {
  const [{ createGuard, parseCidr }, { createFeed }] = await Promise.all([
    import('../webhook/guard.ts'),
    import('../price/feed.ts'),
  ])
  return {
    tls: tlsOf(options),
    guard: createGuard({ allow: options.webhookAllowCidr.map(parseCidr) }),
    observe: createFeed(options.priceFeed),
  }
}

async function serve(cli: Cli, store: Store, options: ServeOptions & Parts): Promise<void> {
  const [{ createApp }, { listenOn }, { createLog }] = await Promise.all([
    import('../http/app.ts'),
    import('../http/listen.ts'),
    import('../log.ts'),
  ])
  const { guard, observe } = options
  const { machine } = cli
  const log = createLog(options.logFormat ?? (cli.streams.err.isTTY ? 'pretty' : 'json'))
  const app = createApp({ store, machine, guard, log, rateLimit: options.rateLimit ?? null })
  const listener = await listenOn(app, { host: options.host, port: options.port, tls: options.tls })
  const scheduler =
    options.tickEvery === null ? null : startScheduler({ store, machine, observe }, options.tickEvery, log)
  const stopped = stopSignal(cli)
  log.info({ url: listener.url, db: cli.globals().db, tick_every_ms: options.tickEvery }, 'listening')

  const signal = await stopped
  log.info({ signal }, 'stopping: finishing what is in flight')
  const drained = Promise.all([listener.close(), scheduler?.stop()])
  const inTime = await Promise.race([drained.then(() => true), after(DRAIN_MAX_MS).then(() => false)])
  if (!inTime) log.warn({ waited_ms: DRAIN_MAX_MS }, 'stopped with calls still in flight')
  log.info({}, 'stopped')
}

const after = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref())

function tlsOf({ tlsCert: cert, tlsKey: key }: ServeOptions): { cert: string; key: string } | null {
  if (cert === undefined && key === undefined) return null
  if (cert !== undefined && key !== undefined) return { cert, key }
  throw new Problem('usage', '--tls-cert and --tls-key go together.')
}

/** Resolves at the first signal to stop; a second one, of either kind, ends the process at once. */
function stopSignal(cli: Cli): Promise<string> {
  return new Promise((resolve) => {
    let stopping = false
    const stop = (signal: NodeJS.Signals): void => {
      if (stopping) process.exit(EXIT.interrupted)
      stopping = true
      if (signal === 'SIGINT') cli.exitWith(EXIT.interrupted)
      resolve(signal)
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}

type SchedulerDeps = Parameters<typeof import('../engine/tick.ts').runTick>[0]

/** Runs a pass at once and then at every interval; a pass that fails is logged and the next one tries again. */
function startScheduler(deps: SchedulerDeps, everyMs: number, log: Log): { stop: () => Promise<void> } {
  let timer: NodeJS.Timeout | undefined
  let stopping = false
  let running: Promise<void> = Promise.resolve()

  const pass = async (): Promise<void> => {
    const started = performance.now()
    try {
      const { runTick } = await import('../engine/tick.ts')
      const report = await runTick(deps)
      log.info(tickJson(report, deps.machine.clock(), performance.now() - started), 'tick')
    } catch (err) {
      log.error({ err }, 'tick failed')
    }
    const spent = performance.now() - started
    if (!stopping) timer = setTimeout(next, Math.max(0, everyMs - spent))
  }
  const next = (): void => {
    running = pass()
  }
  next()

  return {
    async stop() {
      stopping = true
      clearTimeout(timer)
      await running
    },
  }
}
