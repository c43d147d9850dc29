// tick: one pass of the scheduler, for cron.

import { Command, Option } from 'commander'
import { counted } from '../core/counted.ts'
import { BY_HAND } from '../core/live-price.ts'
import { price } from '../core/money.ts'
import { Problem } from '../core/problem.ts'
import type { Feed } from '../price/feed.ts'
import type { Store } from '../store/store.ts'
import type { Cli } from './context.ts'
import { priceFeedOption } from './options/price-feed.ts'
import { positivePrice } from './options/values.ts'
import { addWebhookOptions, lazyWebhooks, type WebhookOptions } from './options/webhooks.ts'
import { EXIT, failureOf } from './shared/exit-codes.ts'
import { warn } from './terminal/print.ts'
import { nameFailures } from './tick/failed-plans.ts'
import { passJson } from './tick/pass-json.ts'
import { createPing, pingOption } from './tick/ping.ts'
import { wake } from './tick/wake-up.ts'

type TickCommandOptions = WebhookOptions & {
  price?: string
  priceFeed: string
  ping?: URL
  dryRun?: boolean
}

export function tickCommand(cli: Cli): Command {
  return addWebhookOptions(new Command('tick'))
    .description('run the scheduler once; for cron, silent unless on a terminal')
    .addOption(new Option('--price <usd>', 'the price of this tick').argParser(positivePrice))
    .addOption(priceFeedOption())
    .option('--dry-run', 'say what would fire and why; store nothing')
    .addOption(pingOption())
    .action(async (options: TickCommandOptions, command: Command) => {
      // The settings of all jobs may name a feed; a price on the command line overrides it.
      if (options.price !== undefined && command.getOptionValueSource('priceFeed') === 'cli')
        throw new Problem('usage', "option '--price <usd>' cannot be used with option '--price-feed <spec>'")
      if (options.dryRun) return cli.withStore((store) => rehearse(cli, store, options))
      const ping = createPing(options.ping, (message) => warn(cli, message))
      // The monitor is called once the database is closed and the result is printed, so it holds up nothing.
      const ended = await cli
        .withStore((store) => tick(cli, store, options))
        .catch(async (error) => {
          await ping(failureOf(error).message)
          throw error
        })
      // A tick that another one kept from running says nothing: if that one hangs, the silence is the alarm.
      if (ended) await ping(ended.failure)
    })
}

async function rehearse(cli: Cli, store: Store, options: TickCommandOptions): Promise<void> {
  const { rehearsePass } = await import('../engine/pass.ts')
  const { showRehearsal } = await import('./tick/rehearsal.ts')
  await lazyWebhooks(options)
  const observe = await feedOf(cli, options)
  await showRehearsal(cli, await rehearsePass({ store, machine: cli.machine, observe }))
}

type Ended = { failure: string | null }

/** Runs the pass and prints what it did. Resolves with what failed, if anything; with null when another pass runs. */
async function tick(cli: Cli, store: Store, options: TickCommandOptions): Promise<Ended | null> {
  const { runPass } = await import('../engine/pass.ts')
  const { machine } = cli
  const observe = await feedOf(cli, options)
  const webhooks = await lazyWebhooks(options)
  const started = performance.now()
  const report = await runPass({ store, machine, observe })
  const woken = report?.whole && (await wake(cli, { store, webhooks }, report.whole))
  const json = passJson({ report, woken, now: machine.clock(), durationMs: performance.now() - started })
  const failures = await nameFailures(store, report?.failed ?? [])
  for (const failure of failures) warn(cli, failure)
  if (json.plans_failed) cli.exitWith(EXIT.found)
  if (cli.globals().json) cli.streams.out.write(`${JSON.stringify(json)}\n`)
  else if (cli.streams.out.isTTY) cli.streams.out.write(`${inWords(json)}\n`)
  return report && { failure: failures.length > 0 ? failures.join('\n') : null }
}

/** The price of one pass: as given, else from the feed. */
async function feedOf(cli: Cli, options: TickCommandOptions): Promise<Feed> {
  const { createFeed, fixedPrice } = await import('../price/feed.ts')
  if (options.price !== undefined) return fixedPrice(price(options.price), BY_HAND)
  return createFeed(options.priceFeed, { clock: cli.machine.clock, warn: (message) => warn(cli, message) })
}

function inWords(json: ReturnType<typeof passJson>): string {
  if (json.skipped) return 'Another tick is running; this one did nothing.'
  const at = json.price_usd === null ? 'without a price' : `at ${json.price_usd} USD`
  return (
    `${json.executions_created} fired of ${counted(json.plans_evaluated, 'plan')} looked at, ${at}, ` +
    `${counted(json.windows_rolled, 'window')} rolled, in ${json.duration_ms} ms.`
  )
}
