import { Command, Option } from 'commander'
import { Problem } from '../core/problem.ts'
import type { Store } from '../store/store.ts'
import type { Cli } from './cli.ts'
import { EXIT } from './exit.ts'
import { durationOrOff, wholeNumber } from './options.ts'
import { startScheduler } from './scheduler.ts'
import { priceFeedOption } from './tick.ts'
import { addWebhookOptions, type WebhookOptions, webhooksOf } from './webhook-options.ts'

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
    .action((options: ServeOptions) =>
      cli.withStore(async (store) => serve(cli, store, options), { create: true }),
    )
}

async function serve(cli: Cli, store: Store, options: ServeOptions): Promise<void> {
  const [{ createApp }, { listenOn }, { createLog }, { createFeed }] = await Promise.all([
    import('../http/app.ts'),
    import('../http/listen.ts'),
    import('../log.ts'),
    import('../price/feed.ts'),
  ])
  const { machine } = cli
  const log = createLog(options.logFormat ?? (cli.streams.err.isTTY ? 'pretty' : 'json'))
  const { guard, deliver } = await webhooksOf(options)
  const observe = createFeed(options.priceFeed, {
    clock: machine.clock,
    warn: (message) => log.warn({}, message),
  })
  const app = createApp({ store, machine, guard, log, rateLimit: options.rateLimit ?? null })
  const listener = await listenOn(app, { host: options.host, port: options.port, tls: tlsOf(options) })
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

/** Resolves at the first signal to stop; a second one ends the process at once. */
function stopSignal(cli: Cli): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(EXIT.interrupted))
        if (signal === 'SIGINT') cli.exitWith(EXIT.interrupted)
        resolve(signal)
      })
    }
  })
}
