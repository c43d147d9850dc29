// Prices that are added and listed, and imports: all rows of one, or none.

import { Problem } from '../../../core/problem.ts'
import type { PriceStore } from '../../prices.ts'
import { type PriceRow, priceOf } from '../../rows/price.ts'
import type { Connection } from '../server/connection.ts'
import { LOCK } from '../server/locks.ts'
import { arraysOf, rowsIn } from '../server/rows-in.ts'
import { takeSessionLock } from '../server/session-lock.ts'
import { query } from '../server/statement.ts'
import { book } from './price-book.ts'

const LIST = query<PriceRow>('select * from prices where at > :after order by at limit :limit')
const IMPORTED = { at: 'bigint', price: 'bigint' } as const
const STAGE = query(
  `insert into price_imports (at, price) select n.at, n.price from ${rowsIn(IMPORTED, 'n')} on conflict do nothing`,
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
