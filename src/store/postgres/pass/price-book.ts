// Prices and the volatility that follows them, for the transactions of the other files.

import type { Instant } from '../../../core/instant.ts'
import type { Price } from '../../../core/money.ts'
import { FIRST_VOLATILITY, observe, REACH_MS, type Volatility } from '../../../core/volatility.ts'
import type { ObservedPrice } from '../../prices.ts'
import { instant } from '../../rows/instant.ts'
import type { PriceRow } from '../../rows/price.ts'
import { type VolatilityRow, volatilityOf, volatilityParams } from '../../rows/volatility.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

const ADD = query(
  `insert into prices (at, price, source) values (:at, :price, :source)
   on conflict (at) do update set price = excluded.price, source = excluded.source`,
)
const NEWEST = query<PriceRow>('select * from prices where at <= :now order by at desc limit 1')
const VOLATILITY = query<VolatilityRow>('select * from volatility')
// The row is created before it is locked, so that there is always something to wait for.
const FIRST = query(
  `insert into volatility (one, variance, hours, last_price, last_at)
   values (1, :variance, :hours, :last_price, :last_at) on conflict do nothing`,
)
const LOCK = query('select from volatility for no key update')
const PUT = query(
  'update volatility set variance = :variance, hours = :hours, last_price = :last_price, last_at = :last_at',
)
const RECENT = query<PriceRow>(
  'select * from prices where at > (select max(at) from prices) - :reach::bigint order by at',
)

export const book = {
  volatility: async (tx: Tx): Promise<Volatility> => volatilityOf(await tx.get(VOLATILITY)),

  async newest(tx: Tx, now: Instant): Promise<{ price: Price; at: Instant } | null> {
    const row = await tx.get(NEWEST, { now })
    return row ? { price: row.price as Price, at: instant(row.at) } : null
  },

  /** Every write that changes the volatility locks it first, and adds prices only then. */
  async lock(tx: Tx): Promise<void> {
    await Promise.all([tx.run(FIRST, volatilityParams(FIRST_VOLATILITY)), tx.run(LOCK)])
  },

  /** Keeps a price. Answers the volatility after it. */
  async add(tx: Tx, at: Instant, { price, source }: ObservedPrice): Promise<Volatility> {
    const [, seen] = await Promise.all([book.lock(tx), book.volatility(tx)])
    const volatility = observe(seen, price, at)
    await Promise.all([tx.run(ADD, { at, price, source }), tx.run(PUT, volatilityParams(volatility))])
    return volatility
  },

  /** Recomputes the volatility after prices older than the newest one have been added. */
  async rebuildVolatility(tx: Tx): Promise<void> {
    const prices = await tx.all(RECENT, { reach: REACH_MS })
    const volatility = prices.reduce(
      (state, row) => observe(state, row.price as Price, instant(row.at)),
      FIRST_VOLATILITY,
    )
    await tx.run(PUT, volatilityParams(volatility))
  },
}
