// Turns in queues: in lanes, at the writer of a file, and among the connections to a server.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Tenant } from '../../src/core/partner.ts'
import { MINUTE_MS, plus } from '../../src/core/time.ts'
import { createLanes } from '../../src/lanes.ts'
import { createPlaces, type Whose } from '../../src/store/postgres/server/pool.ts'
import { type Connection, configure, connect, openFile } from '../../src/store/sqlite/file/connection.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { askTogether, createPollNotes, GATHER_MS } from '../../src/store/writes.ts'
import { temporaryFolder } from '../support/database.ts'
import { each, T0 } from './world.ts'

test('lanes take turns, and within a lane it is first come, first served', () => {
  const lanes = createLanes<{ name: string }>()
  const [crowd, other, seven] = [lanes.open(), lanes.open(), lanes.open()]
  for (let i = 1; i <= 4; i++) crowd({ name: `crowd ${i}` })
  other({ name: 'other 1' })
  seven({ name: 'seven 1' })
  other({ name: 'other 2' })
  assert.equal(lanes.size, 7)
  const taken: (string | undefined)[] = []
  for (let i = 0; i < 4; i++) taken.push(lanes.take()?.name)
  // A lane that comes back joins the end of the line.
  seven({ name: 'seven 2' })
  while (lanes.size > 0) taken.push(lanes.take()?.name)
  const order = 'crowd 1, other 1, seven 1, crowd 2, other 2, crowd 3, seven 2, crowd 4'
  assert.equal(taken.join(', '), order)
  assert.equal(lanes.take(), undefined)
})

// The write queue under load: the size of a commit, and the order of turns.

const CROWD = 1
const OTHER = 2

async function connected(t: TestContext): Promise<Connection> {
  const file = join(temporaryFolder(t), 'tranche.db')
  const db = openFile(file)
  t.after(() => db.close())
  configure(db)
  await migrate(db, file, () => T0)
  db.exec('create table kept (x integer) strict')
  return connect(db, () => T0)
}

/** Counts the turns of the event loop until it is told to stop. */
function countTurns() {
  const count = () => {
    counted.turns += 1
    loop = setImmediate(count)
  }
  let loop = setImmediate(count)
  const counted = { turns: 0, stop: () => clearImmediate(loop) }
  return counted
}

/** Work that holds the lock, and blocks the loop, for so long. */
function busyFor(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

test('a commit ends after some work, and what else the process has to do comes before the next one', async (t) => {
  const connection = await connected(t)
  const counted = countTurns()
  const turnAt = await Promise.all(
    Array.from({ length: 6 }, () =>
      connection.write(() => {
        busyFor(30)
        return counted.turns
      }, CROWD),
    ),
  )
  counted.stop()
  const perCommit = [...Map.groupBy(turnAt, (turn) => turn).values()].map(({ length }) => length)
  assert.ok(Math.max(...perCommit) <= 2, `writes of one turn: ${perCommit}`)
})

test('tenants take turns, however many writes one of them has queued', async (t) => {
  const connection = await connected(t)
  const order: number[] = []
  const crowd = Array.from({ length: 200 }, () => connection.write(() => order.push(CROWD), CROWD))
  const other = [1, 2].map(() => connection.write(() => order.push(OTHER), OTHER))
  await Promise.all([...crowd, ...other])
  assert.deepEqual(order.slice(0, 4), [CROWD, OTHER, CROWD, OTHER])
})

test('writes that arrive together over some turns of the event loop share a commit, and one alone waits for none', async (t) => {
  const { db, write } = await connected(t)
  const walPages = db.prepare<[], [bigint, bigint, bigint]>('pragma wal_checkpoint(noop)').raw()
  const counted = countTurns()
  await write(() => db.exec('insert into kept values (0)'))
  assert.ok(counted.turns <= 4, `turns of a write that is alone: ${counted.turns}`)
  counted.stop()
  const pages = (): bigint => walPages.get()?.[1] ?? 0n
  /** Twenty writes over five turns: the number of pages written, and the time from the first to the last. */
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
  // A busy machine may stop this process for longer than writes wait for each other.
  let twenty = await writeTwenty()
  for (let tries = 1; twenty.ms >= GATHER_MS && tries < 50; tries++) twenty = await writeTwenty()
  assert.ok(twenty.ms < GATHER_MS, `never undisturbed: ${twenty.ms} ms`)
  // Each commit writes the one page of the table.
  assert.equal(twenty.written, 1n)
})

// Places at a server: a tenant has its share, and the others always find one.

const refusal = () => new Error('none was free')

/** Requests so many places at once; answers who was let in, in order, and how they leave. */
function crowd(max: number, stillMaxMs = 60_000) {
  const places = createPlaces({ max, stillMaxMs, refusal })
  const inside: { who: Whose; leave: () => void }[] = []
  const ask = async (who: Whose, times: number) => {
    const asked = Array.from({ length: times }, () =>
      places.take(who).then((leave) => void inside.push({ who, leave })),
    )
    for (const one of asked) one.catch(() => {})
    await nextTurn()
    return asked
  }
  const held = (who: Whose) => inside.filter((one) => one.who === who).length
  return { ask, inside, held }
}

test('a tenant in a crowd leaves places to the others, and they to those after them', async () => {
  const { ask, held } = crowd(10)
  for (const tenant of [1, 2, 3, 4]) await ask(tenant, 50)
  assert.deepEqual([1, 2, 3, 4].map(held), [4, 2, 1, 1])
  await ask(5, 1)
  assert.equal(held(5), 0)
  // Work that no call waits for gets in all the same, and delays nobody's key look-up.
  await ask('none', 20)
  await ask('unknown', 2)
  assert.deepEqual([held('none'), held('unknown')], [1, 1])
})

test('who leaves lets the others in, in turns', async () => {
  const { ask, inside } = crowd(2)
  await ask(1, 4)
  await ask(2, 3)
  assert.deepEqual(each(inside, 'who'), [1])
  for (let left = 0; left < 7; left++) {
    inside[left]?.leave()
    inside[left]?.leave()
    await nextTurn()
    assert.equal(inside.length, Math.min(7, left + 2))
  }
  assert.deepEqual(each(inside, 'who'), [1, 1, 2, 1, 2, 1, 2])
})

test('one connection is enough for everybody', async () => {
  const { ask, inside } = crowd(1)
  await ask(1, 1)
  await ask('none', 1)
  inside[0]?.leave()
  await nextTurn()
  assert.deepEqual(each(inside, 'who'), [1, 'none'])
})

test('who waits in a line that does not move is refused, and takes no place any more', async () => {
  const { ask, inside } = crowd(1, 20)
  await ask(1, 1)
  const [late] = await ask(2, 1)
  await assert.rejects(late ?? Promise.resolve(), /none was free/)
  inside[0]?.leave()
  await ask(3, 1)
  assert.deepEqual(each(inside, 'who'), [1, 3])
})

// Questions that are answered together.

test('the questions of one turn are answered by one look, each with its own answer', async () => {
  const looks: string[][] = []
  const ask = askTogether(async (questions: readonly string[]) => {
    looks.push([...questions])
    return questions.map((question) => question.toUpperCase())
  })
  assert.deepEqual(await Promise.all(['a', 'b', 'c'].map(ask)), ['A', 'B', 'C'])
  assert.equal(await ask('d'), 'D')
  assert.deepEqual(looks, [['a', 'b', 'c'], ['d']])
})

test('a question is never answered by a look that began before it was asked', async () => {
  let truth = 'old'
  const looking = Promise.withResolvers<void>()
  const ask = askTogether(async (questions: readonly string[]) => {
    const seen = truth
    await looking.promise
    return questions.map(() => seen)
  })
  const before = ask('x')
  await nextTurn()
  await nextTurn()
  truth = 'new'
  const after = ask('x')
  looking.resolve()
  assert.deepEqual(await Promise.all([before, after]), ['old', 'new'])
})

test('a look that fails fails those who asked, and nobody after them', async () => {
  let fails = true
  const ask = askTogether(async (questions: readonly number[]) => {
    if (fails) throw new Error('no look')
    return questions
  })
  assert.deepEqual(each(await Promise.allSettled([ask(1), ask(2)]), 'status'), ['rejected', 'rejected'])
  fails = false
  assert.equal(await ask(3), 3)
})

// The time of each tenant's last poll.

test('the mark of a poll is written within a minute, whether or not another poll follows', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const written: unknown[] = []
  const notes = createPollNotes(async (polls) => written.push(...polls))
  const [acme, bolt] = [1, 2].map((tenantId) => ({ tenantId }) as Tenant) as [Tenant, Tenant]
  notes.note(acme, T0)
  notes.note(bolt, plus(T0, 1_000))
  notes.note(acme, plus(T0, 2_000))
  assert.deepEqual(written.splice(0), [[1, T0]])
  t.mock.timers.tick(MINUTE_MS)
  assert.deepEqual(written.splice(0), [
    [2, plus(T0, 1_000)],
    [1, plus(T0, 2_000)],
  ])
  // A time written along with others needs no write of its own.
  notes.note(acme, plus(T0, MINUTE_MS + 1_000))
  notes.note(bolt, plus(T0, MINUTE_MS + 2_000))
  assert.equal(written.splice(0).length, 1)
  notes.flush()
  assert.equal(written.splice(0).length, 1)
  t.mock.timers.tick(10 * MINUTE_MS)
  assert.deepEqual(written, [])
})
