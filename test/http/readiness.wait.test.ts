// Readiness while another process holds the lock: the answer comes when the service has waited long enough for it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import SQLite from 'better-sqlite3'
import type { Service } from '../support/service.ts'
import { startMonitored } from './monitored.ts'

const readiness = async ({ opsUrl }: Service): Promise<[number, string[]]> => {
  const answer = await fetch(`${opsUrl}/readyz`)
  return [answer.status, ((await answer.json()) as { reasons?: string[] }).reasons ?? []]
}

test('ready: the probe writes to the disk and leaves no row; a lock that is not let go shows', async (t) => {
  const service = await startMonitored(t)
  await service.tick()
  const passes = await service.store.listPassesAfter(0)
  const before = (await service.store.walBytes()) ?? 0
  assert.deepEqual(await readiness(service), [200, []])
  assert.ok(((await service.store.walBytes()) ?? 0) > before, 'the log of the database has grown')
  assert.deepEqual(await service.store.listPassesAfter(0), passes)

  const other = new SQLite(service.file)
  t.after(() => other.close())
  other.exec('begin immediate')
  const both = await Promise.all([readiness(service), readiness(service)])
  for (const [status, reasons] of both) {
    assert.equal(status, 503)
    assert.match(reasons.join(), /cannot be written: it is locked/)
  }
  assert.equal((await fetch(`${service.url}/healthz`)).status, 200)
  other.exec('rollback')
  assert.equal((await readiness(service))[0], 200)
})
