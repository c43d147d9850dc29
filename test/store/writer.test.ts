// The write queue under load: how much work one commit takes, and whose turn it is.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type Connection, configure, connect, openFile } from '../../src/store/sqlite/file/connection.ts'
import { GATHER_MS } from '../../src/store/writes.ts'
import { temporaryFolder } from '../support/database.ts'
import { T0 } from './world.ts'

const CROWD = 1
const OTHER = 2

function connected(t: TestContext): Connection {
  const file = join(temporaryFolder(t), 'tranche.db')
  const db = openFile(file)
  t.after(() => db.close())
  configure(db)
  db.exec('create table kept (x integer) strict')
  return connect(db, () => T0)
}

/** Work that holds the lock, and the loop, for so long. */
function busyFor(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

test('a commit ends after some work, and what else the process has to do comes before the next one', async (t) => {
  const connection = connected(t)
  let turns = 0
  const count = (): void => {
    turns += 1
    loop = setImmediate(count)
  }
  let loop = setImmediate(count)
  const turnAt = await Promise.all(
    Array.from({ length: 6 }, () =>
      connection.write(() => {
        busyFor(30)
        return turns
      }, CROWD),
    ),
  )
  clearImmediate(loop)
  const perCommit = [...Map.groupBy(turnAt, (turn) => turn).values()].map(({ length }) => length)
  assert.ok(Math.max(...perCommit) <= 2, `writes of one turn: ${perCommit}`)
})

test('tenants take turns, however many writes one of them has queued', async (t) => {
  const connection = connected(t)
  const order: number[] = []
  const crowd = Array.from({ length: 200 }, () => connection.write(() => order.push(CROWD), CROWD))
  const other = [1, 2].map(() => connection.write(() => order.push(OTHER), OTHER))
  await Promise.all([...crowd, ...other])
  assert.deepEqual(order.slice(0, 4), [CROWD, OTHER, CROWD, OTHER])
})

test('writes that arrive together over some turns of the event loop share a commit, and one alone waits for none', async (t) => {
  const { db, write } = connected(t)
  const walPages = db.prepare<[], [bigint, bigint, bigint]>('pragma wal_checkpoint(noop)').raw()
  let turns = 0
  const count = (): void => {
    turns += 1
    loop = setImmediate(count)
  }
  let loop = setImmediate(count)
  await write(() => db.exec('insert into kept values (0)'))
  assert.ok(turns <= 4, `turns of a write that is alone: ${turns}`)
  clearImmediate(loop)
  const pages = (): bigint => walPages.get()?.[1] ?? 0n
  /** Twenty writes over five turns: how many pages they came to, and the time from the first to the last. */
  async function writeTwenty(): Promise<{ written: bigint; ms: number }> {
    const [before, began] = [pages(), performance.now()]
    const writes: Promise<unknown>[] = []
    for (let i = 0; i < 20; i++) {
      if (i % 4 === 0 && i > 0) await new Promise((resolve) => setImmediate(resolve))
      writes.push(write(() => db.exec('update kept set x = x + 1')))
    }
    const ms = performance.now() - began
    await Promise.all(writes)
    return { written: pages() - before, ms }
  }
  // A machine that is busy may stop this process for longer than writes wait for each other.
  let twenty = await writeTwenty()
  for (let tries = 1; twenty.ms >= GATHER_MS && tries < 50; tries++) twenty = await writeTwenty()
  assert.ok(twenty.ms < GATHER_MS, `never undisturbed: ${twenty.ms} ms`)
  // Each commit writes the one page of the table.
  assert.equal(twenty.written, 1n)
})
