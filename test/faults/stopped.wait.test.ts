// Processes that are stopped (SIGSTOP) in the middle of their work, and continued: nobody waits forever, nothing
// happens twice, and a process that cannot write says so.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { pricesCsv } from '../price/histories.ts'
import { trancheHere } from '../store/copies.ts'
import { type Started, start, startServe } from '../support/process.ts'
import { me, PLAN, USER, withKey } from '../support/service.ts'

const post = (url: string, key: string, path: string, body: object): Promise<Response> =>
  fetch(`${url}/partner/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, connection: 'close' },
    body: JSON.stringify(body),
  })
const userNamed = (partner_user_id: string) => ({ ...USER, partner_user_id })

/** A feed that answers on command, and reports when it was called. */
async function slowFeed(t: TestContext) {
  const asked = Promise.withResolvers<void>()
  const told = Promise.withResolvers<void>()
  const server = createServer((_, response) => {
    asked.resolve()
    told.promise.then(() => response.end('{"price":"60000"}'))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as { port: number }
  return { spec: `http://127.0.0.1:${port}/#/price`, asked: asked.promise, tell: told.resolve }
}

/** Starts an import, and stops it inside a transaction. */
async function stoppedWriter(t: TestContext, cwd: string): Promise<Started> {
  writeFileSync(join(cwd, 'prices.csv'), pricesCsv(30_000))
  const other = new SQLite(join(cwd, 'tranche.db'), { timeout: 0 })
  t.after(() => other.close())
  const isLocked = (): boolean => {
    try {
      other.exec('begin immediate; rollback')
      return false
    } catch {
      return true
    }
  }
  const writer = start(t, ['price', 'import', 'prices.csv', '--json'], { cwd })
  for (;;) {
    assert.ok(!writer.hasEnded(), 'it is stopped before its end')
    if (isLocked()) {
      writer.child.kill('SIGSTOP')
      await wait(20)
      if (isLocked()) return writer
      writer.child.kill('SIGCONT')
    }
    await wait(1)
  }
}

suite('a process that is stopped', () => {
  test('with the write lock: serve reads on, its writes wait, and are done or put off with 503', async (t) => {
    const { cwd, key } = await withKey(t)
    const { url, child, ended } = await startServe(t, [], { cwd })
    const writer = await stoppedWriter(t, cwd)
    // The first of the two waits until its time is over; the second until the lock is free.
    const putOff = post(url, key, '/users', userNamed('put-off'))
    assert.equal((await me(url, key)).status, 200)
    const refused = await putOff
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1'])
    assert.match(
      ((await refused.json()) as { detail: string }).detail,
      /^The database is busy; send the call again\.$/,
    )
    const waiting = post(url, key, '/users', userNamed('waiting'))
    await wait(500)
    writer.child.kill('SIGCONT')
    assert.equal((await waiting).status, 200)
    assert.equal(await writer.ended, 0, writer.err())
    assert.equal(JSON.parse(writer.out()).added, 30_000)
    child.kill('SIGTERM')
    assert.equal(await ended, 0)
    const users = JSON.parse(
      (await trancheHere(join(cwd, 'tranche.db'), 'user', 'list', 'acme', '--env', 'test', '--json')).out,
    )
    assert.deepEqual(
      users.map((user: { partner_user_id: string }) => user.partner_user_id),
      ['waiting'],
    )
  })

  test('with the lock of a pass: another tick is skipped, serve goes on, and nothing fires twice', async (t) => {
    const { cwd, key } = await withKey(t)
    const { url } = await startServe(t, [], { cwd })
    assert.equal((await post(url, key, '/users', USER)).status, 200)
    assert.equal((await post(url, key, '/plans', PLAN)).status, 200)
    const feed = await slowFeed(t)
    const stopped = start(t, ['tick', '--json', '--price-feed', feed.spec], { cwd })
    await Promise.race([feed.asked, stopped.ended])
    stopped.child.kill('SIGSTOP')
    const tick = () => trancheHere(join(cwd, 'tranche.db'), 'tick', '--price', '60000', '--json')
    for (let n = 0; n < 2; n++) {
      const { code, out } = await tick()
      assert.deepEqual([code, JSON.parse(out).skipped], [0, true])
    }
    assert.equal((await post(url, key, '/users', userNamed('meanwhile'))).status, 200)
    feed.tell()
    stopped.child.kill('SIGCONT')
    assert.equal(await stopped.ended, 0, stopped.err())
    const again = await tick()
    const created = [stopped.out(), again.out].map((out) => JSON.parse(out).executions_created)
    // Stopped for longer than a feed may take, it has no price to buy at, and leaves the purchase to the next tick.
    const isLate = stopped.err().includes('answer within 3 s')
    assert.deepEqual(created, isLate ? [0, 1] : [1, 0], stopped.err())
  })

  test('serve itself: what waits for it is answered when it goes on, and ticks go on meanwhile', async (t) => {
    const { cwd, key } = await withKey(t)
    const { url, child } = await startServe(t, [], { cwd })
    assert.equal((await post(url, key, '/users', USER)).status, 200)
    assert.equal((await post(url, key, '/plans', PLAN)).status, 200)
    child.kill('SIGSTOP')
    const waiting = Promise.all(['a', 'b', 'c'].map((name) => post(url, key, '/users', userNamed(name))))
    const tick = await trancheHere(join(cwd, 'tranche.db'), 'tick', '--price', '60000', '--json')
    assert.deepEqual([tick.code, JSON.parse(tick.out).executions_created], [0, 1])
    child.kill('SIGCONT')
    assert.deepEqual(
      (await waiting).map(({ status }) => status),
      [200, 200, 200],
    )
    const poll = async () => {
      const answer = await fetch(`${url}/partner/v1/executions/due`, {
        headers: { authorization: `Bearer ${key}` },
      })
      return ((await answer.json()) as unknown[]).length
    }
    assert.deepEqual([await poll(), await poll()], [1, 0])
    assert.equal((await trancheHere(join(cwd, 'tranche.db'), 'check')).code, 0)
  })
})
