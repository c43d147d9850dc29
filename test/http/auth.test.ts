// Authentication: every way a key can be invalid, and the throttle per key.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { issueKey as makeKey } from '../../src/keys.ts'
import { silentLog } from '../../src/log.ts'
import { machineAt } from '../../src/machine.ts'
import { AUDIT, type Service, startService, USER } from '../support/service.ts'
import { converse, head, statuses } from './raw.ts'
import { revokeKey, tenantOf, USERS } from './steps.ts'

const ME = '/partner/v1/me'
const MALFORMED = 'Expected Authorization: Bearer <key>'
const INVALID = 'Invalid API key.'

/** A further key, which ends so long from now. */
async function expiringKey({ store, now }: Service, lifetimeMs: number): Promise<string> {
  const { record, secret } = makeKey(
    { tenant: await tenantOf({ store }), label: null, lifetimeMs },
    machineAt(now()).machine,
  )
  await store.addKey(record, AUDIT)
  return secret
}

test('a header that is not "Bearer", one space and one word is malformed', async (t) => {
  const { call, key } = await startService(t)
  const values = [
    ...[null, '', 'Bearer', 'Bearer ', key, `bearer ${key}`, `Bearer  ${key}`, `Bearer\t${key}`],
    ...[`Bearer${key}`, `Bearer ${key} x`, `Bearer ${key}, Bearer ${key}`, `Basic ${key}`],
  ]
  for (const value of values) {
    const options = { key: null, ...(value !== null && { headers: { authorization: value } }) }
    const { status, body, headers } = await call('GET', ME, undefined, options)
    const told = value === null ? 'none' : JSON.stringify(value.replaceAll(key, 'KEY'))
    const asked = headers.get('www-authenticate')
    assert.deepEqual([status, body, asked], [401, { detail: MALFORMED }, 'Bearer'], told)
  }
})

test('a key anywhere but in its header opens nothing', async (t) => {
  const { call, key } = await startService(t)
  const elsewhere: [path: string, headers: Record<string, string>][] = [
    [`${ME}?key=${key}`, {}],
    [`${ME}?api_key=${key}&access_token=${key}`, {}],
    [`${ME}/${key}`, {}],
    [ME, { cookie: `authorization=Bearer ${key}; key=${key}` }],
    [ME, { 'x-api-key': key }],
    [ME, { 'proxy-authorization': `Bearer ${key}` }],
    [ME, { 'x-authorization': `Bearer ${key}` }],
  ]
  for (const [path, headers] of elsewhere) {
    const { status, body } = await call('GET', path, undefined, { key: null, headers })
    assert.deepEqual([status, body], [401, { detail: MALFORMED }], `${path} ${Object.keys(headers)}`)
  }
})

test('one word that is not a usable key of ours is invalid', async (t) => {
  const service = await startService(t)
  const { key } = service
  const elsewhere = await (await startService(t)).issueKey('acme', 'test')
  const revoked = await service.issueKey('acme', 'test')
  await revokeKey(service, revoked)
  const typo = `${key.slice(0, 30)}${key[30] === 'A' ? 'B' : 'A'}${key.slice(31)}`
  const keys = {
    'a character mistyped': typo,
    'a checksum mistyped': `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`,
    'the other environment': key.replace('sse_test_', 'sse_live_'),
    'of another installation': elsewhere,
    revoked,
    expired: await expiringKey(service, 0),
    'a word': 'x',
    'a long word': 'x'.repeat(4000),
  }
  for (const [name, value] of Object.entries(keys)) {
    const { status, body, headers } = await service.call('GET', ME, undefined, { key: value })
    const asked = headers.get('www-authenticate')
    assert.deepEqual([status, body, asked], [401, { detail: INVALID }, 'Bearer'], name)
  }
  assert.equal((await service.call('GET', ME)).status, 200)
})

const ENDINGS: [what: string, status: number, end: (service: Service, key: string) => unknown][] = [
  ['revoked', 401, revokeKey],
  ['expired', 401, ({ advance }) => advance(60_000)],
  [
    'of a partner that was disabled',
    403,
    ({ store }) => store.changePartner('acme', (seen) => ({ ...seen, status: 'disabled' }), AUDIT),
  ],
]

for (const [what, status, end] of ENDINGS) {
  test(`a key that is ${what} while the body is on its way does nothing`, async (t) => {
    const service = await startService(t)
    const key = await expiringKey(service, 60_000)
    const { socket, received, until } = await converse(service.url)
    t.after(() => socket.destroy())
    const body = JSON.stringify(USER)
    socket.write(head('POST', USERS, key, [`Content-Length: ${body.length}`]) + body.slice(0, -1))
    // By then the head has been read: another call to the same server has been answered.
    assert.equal((await service.call('GET', ME, undefined, { key })).status, 200)
    await end(service, key)
    socket.write(body.slice(-1))
    await until(/\}$/)
    assert.deepEqual(statuses(received()), [status])
    const tenant = await tenantOf(service)
    assert.deepEqual(await service.store.listUsers(tenant, { after: null, limit: 10 }), [])
  })
}

test('a use that cannot be noted is tried once, and warned of once, however many calls there are', async (t) => {
  const warned: string[] = []
  let tried = 0
  const markKeyUsed = async () => {
    tried += 1
    throw new Error('the disk is full')
  }
  const { call } = await startService(t, {
    wrap: (store) => ({ ...store, markKeyUsed }),
    log: { ...silentLog, warn: (_, message) => void warned.push(message) },
  })
  for (let n = 0; n < 5; n++) assert.equal((await call('GET', ME)).status, 200)
  await Promise.all(Array.from({ length: 20 }, () => call('GET', ME)))
  assert.deepEqual([tried, warned], [1, ['key use not noted']])
})

test('the use of a key is noted, coarsely', async (t) => {
  const service = await startService(t)
  const lastUsed = async () => (await service.store.listKeys('acme'))[0]?.lastUsedAt
  const first = service.now()
  await service.call('GET', ME)
  // The time of use is written concurrently with the request.
  const noted = async (at: number) => {
    while ((await lastUsed()) !== at) await setImmediate()
  }
  await noted(first)
  service.advance(59 * 60_000)
  await service.call('GET', ME)
  // In a file, a write of our own queues behind it.
  await service.issueKey('other', 'test')
  assert.equal(await lastUsed(), first)
  service.advance(60_000)
  await service.call('GET', ME)
  await noted(service.now())
})

test('a throttled key is told when to come back, and others are not', async (t) => {
  const service = await startService(t, { rateLimit: 3 })
  const other = await service.issueKey('acme', 'live')
  const status = async (key = service.key) => (await service.call('GET', ME, undefined, { key })).status
  assert.deepEqual([await status(), await status(), await status()], [200, 200, 200])
  const refused = await service.call('GET', '/nowhere')
  assert.deepEqual([refused.status, typeof refused.body.detail], [429, 'string'])
  assert.equal(refused.headers.get('retry-after'), '1')
  assert.equal(refused.headers.get('cache-control'), 'no-store')
  assert.equal(await status(other), 200)
  // A refused request costs nothing: after the stated time there is room.
  service.advance(1000)
  assert.deepEqual([await status(), await status(), await status(), await status()], [200, 200, 200, 429])
  // A clock that is set back gives nothing and takes nothing.
  service.advance(-3_600_000)
  assert.equal(await status(), 429)
  service.advance(1000)
  assert.equal(await status(), 200)
})

test('a wrong key is refused before it counts', async (t) => {
  const limited = await startService(t, { rateLimit: 1 })
  for (let i = 0; i < 5; i++) {
    assert.equal((await limited.call('GET', ME, undefined, { key: 'wrong' })).status, 401)
  }
  assert.equal((await limited.call('GET', ME)).status, 200)
})

test('a key revoked in the middle of a flood opens nothing from then on', async (t) => {
  const service = await startService(t)
  const answers: [isAfter: boolean, status: number][] = []
  let isRevoked = false
  const reached = Promise.withResolvers<void>()
  const flood = async () => {
    for (let n = 0; n < 20; n++) {
      const isAfter = isRevoked
      answers.push([isAfter, (await service.call('GET', ME)).status])
      if (answers.length >= 200) reached.resolve()
    }
  }
  const callers = Promise.all(Array.from({ length: 20 }, flood))
  await reached.promise
  await revokeKey(service, service.key)
  isRevoked = true
  await callers
  const statusesOf = (after: boolean) =>
    answers.flatMap(([isAfter, status]) => (isAfter === after ? status : []))
  assert.equal(statusesOf(false)[0], 200)
  assert.deepEqual(new Set(statusesOf(true)), new Set([401]))
})
