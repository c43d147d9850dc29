// The promises of each store to the shared transactions.

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { query } from '../../src/store/statement.ts'
import type { Base, ReadTx, Step } from '../../src/store/transaction.ts'

/** Opens a database with a table `kept` that has one integer column `x`, and no rows. */
export type OpenBase = (t: TestContext) => Promise<Base>

const KEEP = query('insert into kept (x) values (:x)')
const COUNT = query<{ rows: bigint }>('select count(*) as rows from kept')
const AMONG = query<{ x: bigint }>(({ among }) => `select x from kept where ${among('x', 'xs')} order by x`)
const BROKEN = query('insert into kept (y) values (:x)')

const kept = async ({ look }: Base): Promise<number> => Number((await look((tx) => tx.get(COUNT)))?.rows)
const keep = (tx: ReadTx, x: number): Step<unknown> => tx.run(KEEP, { x })

/** Each promise is proved on its own database. */
export const stepPromises: Record<string, (t: TestContext, open: OpenBase) => Promise<void>> = {
  'steps answer in the order in which they stand, and are kept once all are done': async (t, open) => {
    const base = await open(t)
    const answers = await base.write(function* (tx) {
      const [first, seen] = yield* tx.together(keep(tx, 1), tx.get(COUNT))
      const [, second] = yield* tx.together(
        tx.when(false, () => keep(tx, 2)),
        tx.when(true, () => keep(tx, 3)),
      )
      return [first, seen?.rows, second, yield* tx.all(AMONG, { xs: [2, 3, 4] })]
    })
    assert.deepEqual(answers, [1, 1n, 1, [{ x: 3n }]])
    assert.equal(await kept(base), 2)
  },

  'a transaction with a step that was made and forgotten is refused, and keeps nothing': async (t, open) => {
    const base = await open(t)
    for (const forget of [
      (tx: ReadTx) => keep(tx, 2),
      (tx: ReadTx) => tx.together(keep(tx, 2), keep(tx, 3)),
      (tx: ReadTx) => [2, 3].map((x) => keep(tx, x)),
    ]) {
      const forgetful = base.write(function* (tx) {
        yield* keep(tx, 1)
        forget(tx)
      })
      await assert.rejects(forgetful, /steps of a transaction were made and never reached/)
    }
    assert.equal(await kept(base), 0)
    const forgetful = base.look((tx) => {
      tx.get(COUNT)
      return tx.get(COUNT)
    })
    await assert.rejects(forgetful, /1 steps of a transaction/)
  },

  'a step that is reached twice is not done twice': async (t, open) => {
    const base = await open(t)
    const twice = base.write(function* (tx) {
      const step = keep(tx, 1)
      yield* step
      yield* step
    })
    await assert.rejects(twice, /for the second time/)
    assert.equal(await kept(base), 0)
  },

  'what a decision throws, and what a statement throws, undoes it all': async (t, open) => {
    const base = await open(t)
    const refused = base.write(function* (tx) {
      yield* tx.together(keep(tx, 1), keep(tx, 2))
      throw new Error('refused')
    })
    await assert.rejects(refused, /refused/)
    const broken = base.write(function* (tx) {
      yield* tx.together(keep(tx, 1), tx.run(BROKEN, { x: 2 }), keep(tx, 3))
    })
    await assert.rejects(broken)
    assert.equal(await kept(base), 0)
  },
}
