import { Command, Option } from 'commander'
import { Problem } from '../core/problem.ts'
import type { Log } from '../log.ts'
import type { Feed } from '../price/feed.ts'
import type { Store } from '../store/store.ts'
import type { Cli } from './cli.ts'
import { EXIT } from './exit.ts'
import { durationOrOff, wholeNumber } from './options.ts'
import { priceFeedOption } from './tick.ts'
import { addWebhookOptions, type WebhookOptions, type Webhooks, webhooksOf } from './webhook-options.ts'

/** How long a stop waits for calls in flight before it gives up on them. */
const DRAIN_MAX_MS = 30_000

type ServeOptions = WebhookOptions & {
  host: string
  port: number
  tickEvery: number | null
  tlsCert?: string
  tlsKey?: string
  priceFeed: string
  rateLimit?: number
  logFormat?: 'json' | 'pretty'
}

export function serveCommand(cli: Cli): Command {
  return addWebhookOptions(new Command('serve'))
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
    .action(async (options: ServeOptions) => {
      // What was asked for is checked before a database is opened, or made.
      const parts = await partsOf(cli, options)
      await cli.withStore(async (store) => serve(cli, store, { ...options, ...parts }), { create: true })
    })
}

type Parts = { log: Log; tls: ReturnType<typeof tlsOf>; observe: Feed } & Webhooks

async function partsOf(cli: Cli, options: ServeOptions): Promise<Parts> {
  const [{ createLog }, { createFeed }] = await Promise.all([import('../log.ts'), import('../price/feed.ts')])
  const log = createLog(options.logFormat ?? (cli.streams.err.isTTY ? 'pretty' : 'json'))
  const warn = (message: string): void => log.warn({}, message)
  return {
    log,
    tls: tlsOf(options),
    observe: createFeed(options.priceFeed, { clock: cli.machine.clock, warn }),
    ...(await webhooksOf(options)),
  }
}

async function serve(cli: Cli, store: Store, options: ServeOptions & Parts): Promise<void> {
  const { createApp } = await import('../http/app.ts')
  const { listenOn } = await import('../http/listen.ts')
  const { startScheduler } = await import('./scheduler.ts')
  const { log, guard, deliver, observe } = options
  const { machine } = cli
  const app = createApp({ store, machine, guard, log, rateLimit: options.rateLimit ?? null })
  const listener = await listenOn(app, { host: options.host, port: options.port, tls: options.tls })
  const scheduler =
    options.tickEvery === null
      ? null
      : startScheduler({ store, machine, observe, deliver, log }, options.tickEvery)
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
