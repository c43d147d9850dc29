// Prices: listed in order, imported all or none, and never taken from the future.

import assert from 'node:assert/strict'
import { price } from '../../../src/core/money.ts'
import { HOUR_MS, type Instant, MINUTE_MS, plus } from '../../../src/core/time.ts'
import type { Store } from '../../../src/store/store.ts'
import { type Contract, openWorld, problem, T0 } from '../world.ts'

const at = (hours: number): Instant => plus(T0, hours * HOUR_MS)
const row = (hours: number, usd: string) => ({ at: at(hours), price: price(usd) })
async function* batches(...all: ReturnType<typeof row>[][]) {
  yield* all
}
const listed = async (store: Store) =>
  (await store.listPrices({ after: null, limit: 100 })).map((one) => [one.at, one.price, one.source])

export const priceContract: Contract = {
  'prices are listed from the oldest on, in pages': async (t, open) => {
    const { store, advance } = await openWorld(t, open)
    for (let i = 0; i < 5; i++) {
      assert.equal(await store.addPrice({ price: price(`${60_000 + i}`), source: 'test' }), at(i))
      advance(HOUR_MS)
    }
    const page = async (after: number | null) =>
      (await store.listPrices({ after, limit: 2 })).map((one) => one.at)
    assert.deepEqual(await page(null), [at(0), at(1)])
    assert.deepEqual(await page(at(1)), [at(2), at(3)])
    assert.deepEqual(await page(at(3)), [at(4)])
  },

  'an import adds what is not there, and replaces nothing': async (t, open) => {
    const { store, advance } = await openWorld(t, open)
    await store.addPrice({ price: price('60000'), source: 'feed' })
    advance(MINUTE_MS)
    const rows = batches([row(1, '61000'), row(0, '50000')], [row(-2, '59000'), row(1, '61000')])
    assert.equal(await store.importPrices(rows, 'file'), 2)
    assert.deepEqual(await listed(store), [
      [at(-2), price('59000'), 'file'],
      [at(0), price('60000'), 'feed'],
      [at(1), price('61000'), 'file'],
    ])
    const { volatility } = await store.peekPass()
    assert.deepEqual([volatility.hours, volatility.last?.at], [3, at(1)], 'worked out anew')
  },

  'an import that breaks off leaves nothing behind, and the next one may begin': async (t, open) => {
    const { store } = await openWorld(t, open)
    const stop = new Error('the file ends here')
    async function* broken() {
      yield [row(0, '60000')]
      const meanwhile = store.importPrices(batches([row(9, '1')]), 'other')
      await assert.rejects(meanwhile, problem('import_running'))
      yield [row(1, '61000')]
      throw stop
    }
    await assert.rejects(store.importPrices(broken(), 'file'), stop)
    assert.deepEqual(await listed(store), [])
    assert.equal(await store.importPrices(batches([row(2, '62000')]), 'file'), 1)
    assert.deepEqual(await listed(store), [[at(2), price('62000'), 'file']])
  },

  'a pass takes no price that lies ahead of it': async (t, open) => {
    const { store, advance } = await openWorld(t, open)
    await store.importPrices(batches([row(0, '60000'), row(1, '61000')]), 'file')
    for (const known of [await store.peekPass(), await store.beginPass(null)]) {
      assert.deepEqual(known.price, { price: price('60000'), at: at(0) })
    }
    advance(HOUR_MS)
    assert.equal((await store.peekPass()).price?.at, at(1))
  },
}
