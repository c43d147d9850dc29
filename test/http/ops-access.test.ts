// Access to operations: who sees what at which listener.

import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { test } from 'node:test'
import type { H3Event } from 'h3'
import { MINUTE_MS } from '../../src/core/time.ts'
import {
  createAccess,
  isLoopbackAddress,
  OPS_PATHS,
  PAGE_PATHS,
  WRONG_TOKENS_MAX,
} from '../../src/http/ops/access.ts'
import { type Service, startService, T0 } from '../support/service.ts'
import { startMonitored } from './monitored.ts'
import { exchange } from './raw.ts'

const TOKEN = 'correct-horse-battery'
/** Paths that need no parameters. */
const PLAIN = OPS_PATHS.filter((path) => path === '/ops' || !PAGE_PATHS.includes(path as never))
const BEARER = { authorization: `Bearer ${TOKEN}` }
/** As a browser sends a user name and a password. */
const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`
/** All but the two open to everybody. */
const CLOSED = OPS_PATHS.filter((path) => path !== '/healthz' && path !== '/readyz')

type Given = Record<string, string>

/** An answer as its caller sees it, without the parts that differ from call to call. */
async function seen(url: string, headers: Given) {
  const answer = await fetch(url, { headers })
  const fixed = [...answer.headers].filter(([name]) => !['date', 'x-request-id'].includes(name))
  assert.ok(answer.headers.has('x-request-id'))
  return { status: answer.status, headers: Object.fromEntries(fixed), text: await answer.text() }
}

/** Asserts that paths cannot be told from one that does not exist, with and without a key. */
async function assertHidden(
  { url, key }: Service,
  headers: Given,
  paths: readonly string[] = CLOSED,
): Promise<void> {
  for (const path of paths) {
    assert.deepEqual(await seen(url + path, headers), await seen(`${url}/nothing`, headers), path)
    const known = { ...headers, authorization: `Bearer ${key}` }
    const answer = await seen(url + path, known)
    assert.deepEqual(answer, await seen(`${url}/nothing`, known), path)
    assert.equal(answer.status, 404)
  }
}

const get = async (url: string, headers: Given = {}): Promise<[number, unknown]> => {
  const answer = await fetch(url, { headers })
  return [answer.status, await answer.json()]
}

test('strangers learn whether it is up and ready, and nothing else', async (t) => {
  const service = await startMonitored(t)
  assert.deepEqual(await get(`${service.url}/healthz`), [200, { status: 'up' }])
  assert.deepEqual(await get(`${service.url}/readyz`), [200, { ready: true }])
  const posted = await fetch(`${service.url}/healthz`, { method: 'POST' })
  assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET'])
  await assertHidden(service, {})
})

test('no address and no header of a proxy makes anybody local', async (t) => {
  const service = await startMonitored(t)
  const names = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'x-client-ip', 'true-client-ip', 'via']
  for (const name of names) await assertHidden(service, { [name]: '127.0.0.1' })
  await assertHidden(service, { 'x-forwarded-for': '127.0.0.1, ::1', 'x-forwarded-host': 'localhost' })
  await assertHidden(service, { host: 'localhost' })
})

test('readiness: strangers get no reason, and no more than one write a second', async (t) => {
  let probes = 0
  const service = await startMonitored(t, {
    token: TOKEN,
    watched: (store) => ({
      ...store,
      probeWrite: () => {
        probes += 1
        return Promise.reject(new Error('disk I/O error'))
      },
    }),
  })
  const answers = await Promise.all(Array.from({ length: 20 }, () => get(`${service.url}/readyz`)))
  for (const answer of answers) assert.deepEqual(answer, [503, { ready: false }])
  assert.ok(probes <= 2, `${probes} probes`)
  const reasons = ['The database cannot be written: disk I/O error']
  assert.deepEqual(await get(`${service.url}/readyz`, BEARER), [503, { ready: false, reasons }])
  const wrong = { authorization: 'Bearer wrong' }
  assert.deepEqual(await get(`${service.url}/readyz`, wrong), [503, { ready: false }])
})

test('their answers have the id of the call, like all others', async (t) => {
  const service = await startMonitored(t, { token: TOKEN })
  const made = new Set<string | null>()
  for (const url of [service.url, service.opsUrl])
    for (const path of OPS_PATHS) {
      for (const method of ['GET', 'POST', 'HEAD']) {
        const call = (id: string) => fetch(url + path, { method, headers: { ...BEARER, 'x-request-id': id } })
        assert.equal((await call('mine')).headers.get('x-request-id'), 'mine', `${method} ${path}`)
        const { headers } = await call('a b')
        assert.match(headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/, `${method} ${path}`)
        assert.equal(headers.get('cache-control'), 'no-store')
        made.add(headers.get('x-request-id'))
      }
    }
  assert.equal(made.size, 2 * 3 * OPS_PATHS.length)
})

test('with the token they are seen by who sends it alone, from anywhere, at both listeners', async (t) => {
  const service = await startMonitored(t, { token: TOKEN })
  await assertHidden(service, {}, ['/metrics'])
  const unlike = [`${TOKEN}x`, 'x', '', service.key]
  for (const wrong of [
    ...unlike.map((token) => `Bearer ${token}`),
    ...unlike.map((token) => basic(`ops:${token}`)),
    ...[TOKEN, `Basic ${TOKEN}`, `bearer ${TOKEN}`, basic(TOKEN), basic(`${TOKEN}:`), `Digest ${TOKEN}`],
  ])
    for (const url of [service.url, service.opsUrl]) {
      const headers = { authorization: wrong }
      const isHidden = url === service.url && wrong.includes(service.key)
      assert.equal((await fetch(`${url}/metrics`, { headers })).status, isHidden ? 404 : 401, wrong)
      assert.equal((await fetch(`${url}/ops`, { headers })).status, 401, wrong)
    }
  const right = ['', 'ops', 'ä b'].map((user) => basic(`${user}:${TOKEN}`))
  for (const authorization of [BEARER.authorization, ...right]) {
    const headers = { authorization, 'x-forwarded-for': '192.0.2.1', host: 'ops.example' }
    for (const url of [service.url, service.opsUrl])
      for (const path of PLAIN) assert.equal((await fetch(url + path, { headers })).status, 200, path)
  }
  const colons = await startMonitored(t, { token: 'a:b::correct-horse:' })
  const headers = { authorization: basic('ops:a:b::correct-horse:') }
  assert.equal((await fetch(`${colons.url}/ops`, { headers })).status, 200)
})

test('a browser is asked for the token where there is one, and a program told how to send it', async (t) => {
  const bare = await startMonitored(t)
  const { url, opsUrl } = await startMonitored(t, { token: TOKEN })
  const detail = 'Send the ops token as the password, with any user name, or as Authorization: Bearer TOKEN.'
  for (const at of [url, opsUrl])
    for (const path of PAGE_PATHS)
      for (const authorization of [undefined, basic('ops:wrong')]) {
        const answer = await fetch(at + path, { headers: { ...(authorization && { authorization }) } })
        assert.deepEqual([answer.status, await answer.json()], [401, { detail }])
        assert.equal(answer.headers.get('www-authenticate'), 'Basic realm="tranche", charset="UTF-8"')
      }
  for (const asked of [`${opsUrl}/metrics`, `${bare.url}/ops`]) {
    const { status, headers } = await fetch(asked)
    assert.deepEqual([status, headers.get('www-authenticate')], [401, 'Bearer'], asked)
  }
})

test('without ops there is nothing there at all', async (t) => {
  await assertHidden(await startService(t), {}, OPS_PATHS)
})

test('the listener of operations answers them to this machine, and has no partner API', async (t) => {
  const service = await startMonitored(t)
  for (const path of PLAIN) assert.equal((await fetch(service.opsUrl + path)).status, 200, path)
  const headers = { authorization: `Bearer ${service.key}` }
  for (const path of ['/partner/v1/me', '/openapi.json', '/', '/metrics/', '/x%'])
    assert.deepEqual(await get(service.opsUrl + path, headers), [404, { detail: 'Not Found' }], path)
  const posted = await fetch(`${service.opsUrl}/metrics`, { method: 'DELETE' })
  assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET'])
})

test('without a token it answers to no name but this machine’s: a browser is led there under any other', async (t) => {
  const { opsUrl } = await startMonitored(t)
  const { port } = new URL(opsUrl)
  const status = async (host: string): Promise<number> =>
    (await exchange(opsUrl, [`GET /metrics HTTP/1.1\r\nHost: ${host}\r\n\r\n`])).status
  for (const host of [`127.0.0.1:${port}`, '127.0.0.1', 'localhost:1', '[::1]:9090', '127.9.9.9'])
    assert.equal(await status(host), 200, host)
  const evil = ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', 'localhost.evil']
  for (const host of [...evil, '10.0.0.1', '']) assert.equal(await status(host), 421, host)
})

test('which addresses are this machine', () => {
  for (const one of ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1'])
    assert.ok(isLoopbackAddress(one), one)
  for (const one of ['10.0.0.1', '0.0.0.0', '::', '::ffff:192.0.2.1', 'fe80::1', 'localhost', ''])
    assert.ok(!isLoopbackAddress(one), one)
})

/** A call as access sees it. */
const callFrom = (remoteAddress: string, given: string, authorization = `Bearer ${given}`): H3Event => {
  const node = { req: { socket: { remoteAddress } } }
  const headers = new Headers({ authorization })
  return { req: { headers, runtime: { node } }, url: new URL('http://service/') } as unknown as H3Event
}

test('a token is compared by its digest, in a time that tells nothing', (t) => {
  const compared: [number, number][] = []
  const real = crypto.timingSafeEqual
  t.mock.method(crypto, 'timingSafeEqual', (a: Uint8Array, b: Uint8Array) => {
    compared.push([a.byteLength, b.byteLength])
    return real(a, b)
  })
  syncBuiltinESMExports()
  t.after(() => {
    crypto.timingSafeEqual = real
    syncBuiltinESMExports()
  })
  const { admits } = createAccess({ clock: () => T0, token: TOKEN })
  const tried = ['x', `${TOKEN.slice(0, -1)}x`, `${TOKEN}x`, 'y'.repeat(1_000), TOKEN]
  for (const sent of [(token: string) => `Bearer ${token}`, (token: string) => basic(`ops:${token}`)])
    assert.deepEqual(
      tried.map((given) => admits(callFrom('127.0.0.1', given, sent(given)), 'api')),
      [false, false, false, false, true],
    )
  // The only comparison is this one, and it is always of two digests.
  assert.deepEqual(compared, Array(2 * tried.length).fill([32, 32]))
  t.mock.method(crypto, 'timingSafeEqual', () => true)
  syncBuiltinESMExports()
  assert.ok(admits(callFrom('127.0.0.1', 'wrong'), 'api'))
})

test('whoever guesses keeps nobody out: the right token is let in, however many wrong ones came', () => {
  let [now, warned] = [T0, 0]
  const onManyWrong = () => {
    warned += 1
  }
  const { admits } = createAccess({ clock: () => now, token: TOKEN, onManyWrong })
  const tries = (from: string, given: string, door: 'api' | 'ops' = 'api') =>
    admits(callFrom(from, given), door)
  const guess = (from: string, times = WRONG_TOKENS_MAX) => {
    for (let i = 0; i < times; i++) assert.ok(!tries(from, `guess-${i}`))
  }
  const nextMinute = () => {
    now = (now + MINUTE_MS) as typeof now
    warned = 0
  }
  // A partner's key sent along does not count as a guess.
  for (let i = 0; i < 100; i++) assert.ok(!tries('192.0.2.1', 'sse_live_x'))
  guess('192.0.2.1')
  assert.equal(warned, 0)
  assert.ok(tries('192.0.2.1', TOKEN))
  assert.ok(!tries('192.0.2.2', 'guess'))
  assert.ok(!tries('192.0.2.1', 'guess', 'ops'))
  assert.equal(warned, 0, 'another network and the other listener have counts of their own')
  guess('192.0.2.1', 1)
  assert.equal(warned, 1, 'the right one in between forgives nothing')
  guess('192.0.2.1')
  guess('198.51.100.1', WRONG_TOKENS_MAX + 1)
  assert.equal(warned, 1, 'one warning a minute, whoever guesses')
  assert.ok(tries('192.0.2.1', TOKEN))
  for (const [one, other] of [
    ['2001:db8::1', '2001:db8::2'],
    ['127.0.0.1', '::1'],
  ] as const) {
    nextMinute()
    guess(one)
    assert.equal(warned, 0)
    guess(other, 1)
    assert.equal(warned, 1, 'who has a network has all its addresses')
    assert.ok(tries(other, TOKEN))
  }
  // Networks beyond the number that are counted apart share one count.
  nextMinute()
  for (let i = 0; i < 10_000; i++) tries(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, 'guess')
  assert.equal(warned, 0)
  for (let i = 0; i <= WRONG_TOKENS_MAX; i++) tries(`192.0.${i}.1`, 'guess')
  assert.equal(warned, 1)
  assert.ok(tries('192.0.2.3', TOKEN))
})
