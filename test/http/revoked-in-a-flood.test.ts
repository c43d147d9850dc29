// A key that is revoked while it floods the service: what it asks from then on is refused.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { revoke } from '../../src/core/key.ts'
import { keyHash } from '../../src/keys.ts'
import { AUDIT, startService } from '../support/service.ts'

const CALLERS = 20
const CALLS_BEFORE = 200
const CALLS_AFTER = 200

test('a key revoked in the middle of a flood opens nothing from then on', async (t) => {
  const service = await startService(t)
  const { store, key } = service
  const record = await store.findKey(keyHash(key))
  assert.ok(record)
  const answers: { isAfter: boolean; status: number }[] = []
  const counted = (isAfter: boolean) => answers.filter((one) => one.isAfter === isAfter)
  let isRevoked = false
  let isOver = false
  const reached = Promise.withResolvers<void>()
  const flood = async () => {
    while (!isOver) {
      const isAfter = isRevoked
      const { status } = await service.call('GET', '/partner/v1/me')
      answers.push({ isAfter, status })
      if (answers.length >= CALLS_BEFORE) reached.resolve()
      if (counted(true).length >= CALLS_AFTER) isOver = true
    }
  }
  const callers = Promise.all(Array.from({ length: CALLERS }, flood))
  await reached.promise
  await store.changeKey(
    record.key.keyId,
    (seen, time) => ({ key: revoke(seen, time), successor: null }),
    AUDIT,
  )
  isRevoked = true
  await callers
  assert.ok(counted(false).every(({ status }) => status === 200 || status === 401))
  assert.equal(counted(false)[0]?.status, 200)
  assert.deepEqual(new Set(counted(true).map(({ status }) => status)), new Set([401]))
})
