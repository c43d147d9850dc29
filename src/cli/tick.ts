// tick: one pass of the scheduler, for cron.

import { Command, Option } from 'commander'
import { counted } from '../core/counted.ts'
import { price } from '../core/money.ts'
import type { Feed } from '../price/feed.ts'
import type { Cli } from './context.ts'
import { EXIT } from './exit-codes.ts'
import { priceFeedOption } from './options/price-feed.ts'
import { positivePrice } from './options/values.ts'
import { addWebhookOptions, lazyWebhooks, type WebhookOptions } from './options/webhooks.ts'
import { warn } from './terminal/print.ts'
import { nameFailures } from './tick/failed-plans.ts'
import { passJson } from './tick/pass-json.ts'
import { wake } from './tick/wake-up.ts'

type TickCommandOptions = WebhookOptions & { price?: string; priceFeed: string; dryRun?: boolean }

export function tickCommand(cli: Cli): Command {
  return addWebhookOptions(new Command('tick'))
    .description('run the scheduler once; for cron, silent unless on a terminal')
    .addOption(
      new Option('--price <usd>', 'the price of this tick').argParser(positivePrice).conflicts('priceFeed'),
    )
    .addOption(priceFeedOption())
    .option('--dry-run', 'say what would fire and why; store nothing')
    .action((options: TickCommandOptions) =>
      cli.withStore(async (store) => {
        const { rehearsePass, runPass } = await import('../engine/pass.ts')
        const { machine } = cli
        const observe = await feedOf(cli, options)
        const webhooks = await lazyWebhooks(options)
        const started = performance.now()
        if (options.dryRun) {
          const { showRehearsal } = await import('./tick/rehearsal.ts')
          await showRehearsal(cli, await rehearsePass({ store, machine, observe }))
          return
        }
        const report = await runPass({ store, machine, observe })
        const woken = report && (await wake(cli, { store, webhooks }, report))
        const json = passJson({
          report,
          woken,
          now: machine.clock(),
          durationMs: performance.now() - started,
        })
        for (const failure of await nameFailures(store, report?.failed ?? [])) warn(cli, failure)
        if (json.plans_failed) cli.exitWith(EXIT.found)
        if (cli.globals().json) cli.streams.out.write(`${JSON.stringify(json)}\n`)
        else if (cli.streams.out.isTTY) cli.streams.out.write(`${inWords(json)}\n`)
      }),
    )
}

/** The price of one pass: as given, else from the feed. */
async function feedOf(cli: Cli, options: TickCommandOptions): Promise<Feed> {
  const { createFeed, fixedPrice } = await import('../price/feed.ts')
  if (options.price !== undefined) return fixedPrice(price(options.price), 'manual')
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
