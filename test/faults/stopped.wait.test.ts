// Processes that are stopped (SIGSTOP) in the middle of their work, and continued: nobody waits forever, nothing
// happens twice, and a process that cannot write says so.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import SQLite from 'better-sqlite3'
import { pricesCsv } from '../price/histories.ts'
import { trancheHere } from '../store/copies.ts'
import { type Started, start, startServe } from '../support/process.ts'
import { me, USER, withKey } from '../support/service.ts'

const post = (url: string, key: string, path: string, body: object): Promise<Response> =>
  fetch(`${url}/partner/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, connection: 'close' },
    body: JSON.stringify(body),
  })
const userNamed = (partner_user_id: string) => ({ ...USER, partner_user_id })

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
})
