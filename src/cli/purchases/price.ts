// price: the stored prices: listed, fetched and imported.

import { Command } from 'commander'
import { clockDisputed, decideDispute } from '../../core/clock.ts'
import { formatPrice } from '../../core/money.ts'
import { IMPORTED } from '../../core/price.ts'
import { Problem, usage } from '../../core/problem.ts'
import { formatInstant, type Instant } from '../../core/time.ts'
import type { ListedPrice } from '../../store/store.ts'
import { auditEntry } from '../command.ts'
import type { Cli } from '../context.ts'
import { priceFeedOption, time } from '../options.ts'
import { type Column, createProgress, note, printFields, printList, warn } from '../terminal.ts'

export function priceCommand(cli: Cli): Command {
  const price = new Command('price').description('the prices the timing goes by')

  price
    .command('fetch')
    .description('ask the feed once and keep the answer')
    .addOption(priceFeedOption())
    .action(({ priceFeed }: { priceFeed: string }) =>
      cli.withStore(async (store) => {
        const { createFeed, feedName } = await import('../../price/feed.ts')
        if (priceFeed === 'none') throw usage('Give a feed with --price-feed.')
        const { clock } = cli.machine
        const feed = createFeed(priceFeed, { clock, warn: (message) => warn(cli, message) })
        const { price: observed, testimony } = await feed()
        const dispute = decideDispute(clock(), testimony, null)
        if (dispute) throw clockDisputed(dispute)
        if (!observed) throw new Problem('no_price', `The feed ${feedName(priceFeed)} gave no price.`)
        printFields(cli, rowJson({ ...observed, at: await store.addPrice(observed) }))
      }),
    )

  price
    .command('list')
    .description('the stored prices, oldest first')
    .action(() =>
      cli.withStore((store) =>
        printList(cli, {
          read: (page) => store.listPrices(page),
          cursor: (row) => row.at,
          json: rowJson,
          columns: COLUMNS,
          none: 'No prices.',
        }),
      ),
    )

  price
    .command('import')
    .description('add a history of prices from a CSV file (time,price); all of it or nothing')
    .argument('<file>')
    .action(async (file: string) => {
      const { readPriceFile } = await import('../../price/history-file.ts')
      const reader = await readPriceFile(file)
      await cli.withStore(async (store) => {
        const { now } = await store.readClock()
        const progress = createProgress(cli.streams, () => 'importing')
        const shown = (async function* () {
          for await (const batch of reader.batches(now)) {
            progress.show(reader.bytesRead() / reader.bytes)
            yield batch
          }
        })()
        const added = await store.importPrices(shown, IMPORTED).finally(progress.clear)
        const duplicates = reader.rows() - added
        printFields(cli, { rows: reader.rows(), added, duplicates })
        if (duplicates > 0) note(cli, 'Instants that already had a price kept theirs.')
      })
    })

  price
    .command('remove')
    .description('remove the price of an instant, such as a wrong one that was imported')
    .requiredOption('--at <instant>', 'its instant, as price list shows it', time(cli.machine.clock))
    .action(({ at }: { at: Instant }) =>
      cli.withStore(async (store) => {
        const removed = await store.removePrice(at, (row) =>
          auditEntry(cli, 'price.remove', formatInstant(row.at), rowJson(row)),
        )
        printFields(cli, rowJson(removed))
      }),
    )

  return price
}

const rowJson = (row: ListedPrice) => ({
  at: formatInstant(row.at),
  price_usd: formatPrice(row.price),
  source: row.source,
})

const COLUMNS: Column<ReturnType<typeof rowJson>>[] = [
  { title: 'AT', of: (row) => row.at },
  { title: 'USD', of: (row) => row.price_usd, right: true },
  { title: 'SOURCE', of: (row) => row.source },
]
