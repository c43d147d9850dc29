// Prices, the volatility that follows them, and imports of prices.

import type { Price } from '../../core/money.ts'
import { FIRST_VOLATILITY, observe, REACH_MS, type Volatility } from '../../core/price.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { formatInstant, type Instant } from '../../core/time.ts'
import { priceOf, volatilityOf, volatilityParams } from '../rows/ledger.ts'
import { query } from '../statement.ts'
import type { ObservedPrice, PriceStore } from '../store.ts'
import { assigned, columnsToAdd, insertInto, insertRows, putInto } from '../tables.ts'
import type { Base, Step, Steps, Tx } from '../transaction.ts'
import { addAudit } from './audit.ts'

const LIST = query('select * from prices where at > :after order by at limit :limit', priceOf)
const OF_INSTANT = query('select * from prices where at = :at', priceOf)
const REMOVE = query('delete from prices where at = :at')
const STAGE = query((dialect) => `${insertRows(dialect, 'price_imports')} on conflict do nothing`)
const CLEAR = query('delete from price_imports')
const MERGE = query(
  `insert into prices (at, price, source) select at, price, cast(:source as text) from price_imports where true
   order by at on conflict do nothing`,
)

export type OwnImports = {
  /** Null while another import is running; else the function that lets the next one begin. */
  begin: () => Promise<(() => void | Promise<void>) | null>
  /** Writes rows that nobody reads before they are merged. */
  stage: (work: (tx: Tx) => Step<number>) => Promise<number>
}

export const createPriceStore = ({ look, write }: Base, { begin, stage }: OwnImports): PriceStore => ({
  addPrice: (observed) =>
    write(function* (tx) {
      const { real } = yield* tx.times
      yield* addPrice(tx, real, observed)
      return real
    }),

  listPrices: ({ after, limit }) => look((tx) => tx.all(LIST, { after: after ?? -1, limit })),

  removePrice: (at, entryOf) =>
    write(function* (tx) {
      const [{ real }] = yield* tx.together(tx.times, lockVolatility(tx))
      const removed = yield* tx.get(OF_INSTANT, { at })
      if (!removed) throw notFound('price', formatInstant(at))
      yield* tx.together(tx.run(REMOVE, { at }), addAudit(tx, entryOf(removed), real))
      yield* rebuildVolatility(tx)
      return removed
    }),

  async importPrices(batches, source) {
    const release = await begin()
    if (!release) throw new Problem('import_running', 'Another import is running.')
    try {
      await stage((tx) => tx.run(CLEAR))
      for await (const rows of batches) await stage((tx) => tx.run(STAGE, { rows }))
      return await write(function* (tx) {
        yield* lockVolatility(tx)
        const added = yield* tx.run(MERGE, { source })
        yield* rebuildVolatility(tx)
        return added
      })
    } finally {
      await stage((tx) => tx.run(CLEAR)).finally(release)
    }
  },
})

const ADD = query(putInto('prices'))
export const NEWEST_PRICE = query('select * from prices where at <= :now order by at desc limit 1', priceOf)
const VOLATILITY = query('select * from volatility', volatilityOf)
// The row is created before it is locked, so that there is always something to wait for.
const FIRST = query(`${insertInto('volatility')} on conflict do nothing`)
const LOCK_VOLATILITY = query('select from volatility for no key update')
const PUT_VOLATILITY = query(`update volatility set ${assigned(columnsToAdd('volatility', 'one'))}`)
const RECENT = query(
  'select * from prices where at > (select max(at) from prices) - cast(:reach as bigint) order by at',
  priceOf,
)

export function* volatilityNow(tx: Tx): Steps<Volatility> {
  return (yield* tx.get(VOLATILITY)) ?? FIRST_VOLATILITY
}

export function* newestPrice(tx: Tx, now: Instant): Steps<{ price: Price; at: Instant } | null> {
  const newest = yield* tx.get(NEWEST_PRICE, { now })
  return newest ? { price: newest.price, at: newest.at } : null
}

/** Every write that changes the volatility locks it first, and adds prices only then. */
const lockVolatility = (tx: Tx): Step<unknown> =>
  tx.together(tx.run(FIRST, volatilityParams(FIRST_VOLATILITY)), tx.lock(LOCK_VOLATILITY))

/** Stores a price, and returns the volatility after it. */
export function* addPrice(tx: Tx, at: Instant, { price, source }: ObservedPrice): Steps<Volatility> {
  const [, current] = yield* tx.together(lockVolatility(tx), volatilityNow(tx))
  const volatility = observe(current, price, at)
  yield* tx.together(tx.run(ADD, { at, price, source }), tx.run(PUT_VOLATILITY, volatilityParams(volatility)))
  return volatility
}

/** Recomputes the volatility after prices older than the newest one have been added. */
function* rebuildVolatility(tx: Tx): Steps<void> {
  const prices = yield* tx.all(RECENT, { reach: REACH_MS })
  const volatility = prices.reduce((state, { price, at }) => observe(state, price, at), FIRST_VOLATILITY)
  yield* tx.run(PUT_VOLATILITY, volatilityParams(volatility))
}
