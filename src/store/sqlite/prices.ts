// Prices, the volatility that follows them, and imports: all rows of one, or none.

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
import type { ClockStore, PriceStore } from '../store.ts'
import { columnsToAdd, insertInto, overwritten } from '../tables.ts'
import type { Connection, Database } from './file/connection.ts'
import { lockFile } from './file/files.ts'
import { acquireLock } from './file/locks.ts'

export type PriceBook = ReturnType<typeof createPriceBook>

/** Prices and the volatility that follows them, for the transactions of the other files. */
export function createPriceBook(db: Database) {
  const sql = {
    add: db.prepare(
      `${insertInto('prices')} on conflict (at) do update set ${overwritten(['price', 'source'])}`,
    ),
    newest: db.prepare<object, PriceRow>('select * from prices where at <= :now order by at desc limit 1'),
    volatility: db.prepare<[], VolatilityRow>('select * from volatility'),
    putVolatility: db.prepare(
      `${insertInto('volatility')}
       on conflict (one) do update set ${overwritten(columnsToAdd('volatility', 'one'))}`,
    ),
    recent: db.prepare<object, PriceRow>(
      'select * from prices where at > (select max(at) from prices) - :reach order by at',
    ),
  }
  const put = (volatility: Volatility): void => {
    sql.putVolatility.run(volatilityParams(volatility))
  }

  return {
    volatility: (): Volatility => volatilityOf(sql.volatility.get()),

    newest(now: Instant): { price: Price; at: Instant } | null {
      const row = sql.newest.get({ now })
      return row ? { price: row.price as Price, at: instant(row.at) } : null
    },

    add(at: Instant, price: Price, source: string): void {
      sql.add.run({ at, price, source })
      put(observe(this.volatility(), price, at))
    },

    /** Recomputes the volatility after prices older than the newest one have been added. */
    rebuildVolatility(): void {
      let state = FIRST_VOLATILITY
      for (const row of sql.recent.iterate({ reach: REACH_MS })) {
        state = observe(state, row.price as Price, instant(row.at))
      }
      put(state)
    },
  }
}

export function createPriceStore({ db, read, write }: Connection, book: PriceBook, file: string): PriceStore {
  const sql = {
    list: db.prepare<object, PriceRow>('select * from prices where at > :after order by at limit :limit'),
    stage: db.prepare(`${insertInto('price_imports')} on conflict do nothing`),
    clear: db.prepare('delete from price_imports'),
    merge: db.prepare(
      `insert into prices (at, price, source) select at, price, :source from price_imports where true
       on conflict do nothing`,
    ),
  }

  return {
    addPrice: ({ price, source }) =>
      write((now) => {
        book.add(now, price, source)
        return now
      }),

    listPrices: ({ after, limit }) => read(() => sql.list.all({ after: after ?? -1, limit }).map(priceOf)),

    async importPrices(batches, source) {
      const release = acquireLock(lockFile(file, 'import'))
      if (!release) throw new Problem('import_running', 'Another import is running.')
      try {
        await write(() => sql.clear.run())
        for await (const batch of batches) {
          await write(() => {
            for (const row of batch) sql.stage.run(row)
          })
        }
        return await write(() => {
          const added = sql.merge.run({ source }).changes
          book.rebuildVolatility()
          return added
        })
      } finally {
        await write(() => sql.clear.run()).finally(release)
      }
    },
  }
}

// The single row that says the clock is in doubt, so that every process knows what one pass has found out.

/** For the transactions of other files. */
export function createDisputes(db: Database) {
  const sql = {
    find: db.prepare<[], DisputeRow>('select * from clock_disputes'),
    put: db.prepare(
      `${insertInto('clock_disputes', { one: '1' })}
       on conflict (one) do update set ${overwritten(columnsToAdd('clock_disputes', 'one'))}`,
    ),
    clear: db.prepare('delete from clock_disputes'),
  }
  return {
    standing(): Dispute | null {
      const row = sql.find.get()
      return row ? disputeOf(row) : null
    },

    put(dispute: Dispute | null): void {
      if (dispute === null) sql.clear.run()
      else {
        const { source, at } = dispute.witness
        sql.put.run({ clock_at: dispute.clockAt, witness_at: at, source })
      }
    },
  }
}

export function createClockStore({ db, present, read, write }: Connection): ClockStore {
  const disputes = createDisputes(db)
  return {
    async judgeClock(decide) {
      // Usually there is nothing to write, and then a pass does not pay for a commit.
      const quiet = await read(() => {
        const standing = disputes.standing()
        return standing === null && decide(present(), standing) === null
      })
      if (quiet) return null
      return write((now) => {
        const dispute = decide(now, disputes.standing())
        disputes.put(dispute)
        return dispute
      })
    },

    readClock: () => read(() => ({ now: present(), standing: disputes.standing() })),
  }
}
