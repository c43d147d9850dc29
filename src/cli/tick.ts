import { Command, Option } from 'commander'
import { formatInstant } from '../core/instant.ts'
import { formatPrice, price } from '../core/money.ts'
import type { TickReport } from '../engine/tick.ts'
import type { Cli } from './cli.ts'
import { positivePrice } from './options.ts'

export function tickCommand(cli: Cli): Command {
  return new Command('tick')
    .description('run one scheduler pass; for cron, silent unless on a terminal')
    .addOption(
      new Option('--price <usd>', 'the price of this pass').argParser(positivePrice).conflicts('priceFeed'),
    )
    .addOption(priceFeedOption())
    .action((options: TickOptions) =>
      cli.withStore(async (store) => {
        const { runTick } = await import('../engine/tick.ts')
        const { createFeed, fixedPrice } = await import('../price/feed.ts')
        const { machine } = cli
        const observe =
          options.price === undefined
            ? createFeed(options.priceFeed)
            : fixedPrice(price(options.price), 'manual')
        const started = performance.now()
        const report = await runTick({ store, machine, observe })
        const json = tickJson(report, machine.clock(), performance.now() - started)
        if (cli.globals().json) cli.streams.out.write(`${JSON.stringify(json)}\n`)
        else if (cli.streams.out.isTTY) cli.streams.out.write(`${inWords(json)}\n`)
      }),
    )
}

type TickOptions = { price?: string; priceFeed: string }

export const priceFeedOption = () =>
  new Option('--price-feed <spec>', 'where the price comes from').env('TRANCHE_PRICE_FEED').default('none')

/** What a pass did; one that found another running did nothing and says so. */
export const tickJson = (report: TickReport | null, now: TickReport['at'], durationMs: number) => ({
  at: formatInstant(report?.at ?? now),
  price_usd: report?.price ? formatPrice(report.price) : null,
  plans_evaluated: report?.plansEvaluated ?? 0,
  executions_created: report?.executionsCreated ?? 0,
  windows_rolled: report?.windowsRolled ?? 0,
  webhooks_sent: 0,
  webhooks_failed: 0,
  duration_ms: Math.round(durationMs),
  ...(report === null && { skipped: true }),
})

function inWords(json: ReturnType<typeof tickJson>): string {
  if (json.skipped) return 'Another tick is running; this one did nothing.'
  const at = json.price_usd === null ? 'without a price' : `at ${json.price_usd} USD`
  return (
    `${json.executions_created} fired of ${json.plans_evaluated} plans looked at, ${at}, ` +
    `${json.windows_rolled} windows rolled, in ${json.duration_ms} ms.`
  )
}
