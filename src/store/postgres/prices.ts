// Prices that are added and listed, and imports: all rows of one, or none.

import type { Dispute } from '../../core/clock.ts'
import type { Price } from '../../core/money.ts'
import { FIRST_VOLATILITY, observe, REACH_MS, type Volatility } from '../../core/price.ts'
import { Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import { instant } from '../reader.ts'
import {
  type DisputeRow,
  disputeOf,
  type PriceRow,
  priceOf,
  type VolatilityRow,
  volatilityOf,
  volatilityParams,
} from '../rows/prices.ts'
import type { ClockStore, ObservedPrice, PriceStore } from '../store.ts'
import { assigned, columnsToAdd, insertInto, overwritten } from '../tables.ts'
import { type Connection, takeSessionLock } from './server/connection.ts'
import { LOCK } from './server/locks.ts'
import type { Tx } from './server/pipeline.ts'
import { arraysFor, arraysOf, namesOf, query, rowsIn } from './server/statement.ts'

const LIST = query<PriceRow>('select * from prices where at > :after order by at limit :limit')
const IMPORTED = arraysFor('price_imports', columnsToAdd('price_imports'))
const STAGE = query(
  `insert into price_imports (${namesOf(IMPORTED)}) select n.* from ${rowsIn(IMPORTED, 'n')} on conflict do nothing`,
)
const CLEAR = query('delete from price_imports')
const MERGE = query(
  `insert into prices (at, price, source) select at, price, :source::text from price_imports order by at
   on conflict do nothing`,
)

export function createPriceStore(connection: Connection): PriceStore {
  const { look, write } = connection
  const clear = () => look((tx) => tx.run(CLEAR))

  return {
    addPrice: (observed) =>
      write(async (tx) => {
        const { real } = await tx.times
        await book.add(tx, real, observed)
        return real
      }),

    listPrices: ({ after, limit }) =>
      look(async (tx) => (await tx.all(LIST, { after: after ?? -1, limit })).map(priceOf)),

    async importPrices(batches, source) {
      const giveBack = await takeSessionLock(connection, LOCK.import)
      if (!giveBack) throw new Problem('import_running', 'Another import is running.')
      try {
        await clear()
        // Staged rows concern nobody yet, so no month waits for the end of a file.
        for await (const batch of batches) await look((tx) => tx.run(STAGE, arraysOf(IMPORTED, batch)))
        return await write(async (tx) => {
          await book.lock(tx)
          const added = await tx.run(MERGE, { source })
          await book.rebuildVolatility(tx)
          return added
        })
      } finally {
        await clear().finally(giveBack)
      }
    },
  }
}

// Prices and the volatility that follows them, for the transactions of the other files.

const ADD = query(
  `${insertInto('prices')} on conflict (at) do update set ${overwritten(['price', 'source'])}`,
)
const NEWEST = query<PriceRow>('select * from prices where at <= :now order by at desc limit 1')
const VOLATILITY = query<VolatilityRow>('select * from volatility')
// The row is created before it is locked, so that there is always something to wait for.
const FIRST = query(`${insertInto('volatility')} on conflict do nothing`)
const LOCK_PRICES = query('select from volatility for no key update')
const PUT = query(`update volatility set ${assigned(columnsToAdd('volatility', 'one'))}`)
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
    await Promise.all([tx.run(FIRST, volatilityParams(FIRST_VOLATILITY)), tx.run(LOCK_PRICES)])
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

// The single row that says the clock is in doubt, so that every process knows what one pass has found out.

const STANDING = query<DisputeRow>('select * from clock_disputes')
// The table is locked, because there may be no row to lock, and this hardly ever happens.
const LOCK_TABLE = query('lock table clock_disputes in share row exclusive mode')
const PUT_DISPUTE = query(
  `${insertInto('clock_disputes', { one: '1' })}
   on conflict (one) do update set ${overwritten(columnsToAdd('clock_disputes', 'one'))}`,
)
const CLEAR_DISPUTE = query('delete from clock_disputes')

/** The dispute that stands, for the transactions of other files. */
async function standingDispute(tx: Tx): Promise<Dispute | null> {
  const row = await tx.get(STANDING)
  return row ? disputeOf(row) : null
}

async function put(tx: Tx, dispute: Dispute | null): Promise<void> {
  if (dispute === null) await tx.run(CLEAR_DISPUTE)
  else {
    const { source, at } = dispute.witness
    await tx.run(PUT_DISPUTE, { clock_at: dispute.clockAt, witness_at: at, source })
  }
}

export function createClockStore({ clock, read, write }: Connection): ClockStore {
  const readClock: ClockStore['readClock'] = () =>
    read(async (tx) => {
      const [now, standing] = await Promise.all([clock.present(tx), standingDispute(tx)])
      return { now, standing }
    })

  return {
    async judgeClock(decide) {
      // Usually there is nothing to write, and then a pass does not pay for a commit.
      const { now, standing } = await readClock()
      if (standing === null && decide(now, standing) === null) return null
      return write(async (tx) => {
        const [{ real }, , standing] = await Promise.all([tx.times, tx.run(LOCK_TABLE), standingDispute(tx)])
        const dispute = decide(real, standing)
        await put(tx, dispute)
        return dispute
      })
    },

    readClock,
  }
}
