// The guard: no hostile URL, name or DNS answer opens a socket to a special address.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Problem } from '../../src/core/problem.ts'
import { createGuard, createResolve, parseCidr, refusal } from '../../src/webhook/address-guard.ts'
import { makeAuthority } from '../support/certificate.ts'
import { freePort } from '../support/within.ts'
import {
  deliverer,
  deliveryTo,
  HOST_NAME,
  knock,
  startMute,
  startNameServer,
  startReceiver,
  TYPE_A,
  TYPE_AAAA,
} from './stage.ts'

/** First and last address of each range of the IANA special-purpose registries, and of multicast. */
const SPECIAL_V4: Record<string, [string, string]> = {
  'this network': ['0.0.0.0', '0.255.255.255'],
  'private use 10': ['10.0.0.0', '10.255.255.255'],
  'shared address space': ['100.64.0.0', '100.127.255.255'],
  loopback: ['127.0.0.0', '127.255.255.255'],
  'link local and metadata': ['169.254.0.0', '169.254.255.255'],
  'private use 172': ['172.16.0.0', '172.31.255.255'],
  'protocol assignments': ['192.0.0.0', '192.0.0.255'],
  'documentation 1': ['192.0.2.0', '192.0.2.255'],
  'AS112-v4': ['192.31.196.0', '192.31.196.255'],
  AMT: ['192.52.193.0', '192.52.193.255'],
  '6to4 relay anycast': ['192.88.99.0', '192.88.99.255'],
  'private use 192': ['192.168.0.0', '192.168.255.255'],
  'direct delegation AS112': ['192.175.48.0', '192.175.48.255'],
  benchmarking: ['198.18.0.0', '198.19.255.255'],
  'documentation 2': ['198.51.100.0', '198.51.100.255'],
  'documentation 3': ['203.0.113.0', '203.0.113.255'],
  multicast: ['224.0.0.0', '239.255.255.255'],
  'reserved and broadcast': ['240.0.0.0', '255.255.255.255'],
}
const SPECIAL_V6: Record<string, [string, string]> = {
  unspecified: ['::', '::'],
  loopback: ['::1', '::1'],
  'IPv4-compatible': ['::7f00:1', '::ffff:ffff'],
  'IPv4-mapped': ['::ffff:0:0', '::ffff:ffff:ffff'],
  'IPv4-translated': ['::ffff:0:0:0', '::ffff:0:ffff:ffff'],
  NAT64: ['64:ff9b::', '64:ff9b::ffff:ffff'],
  'local NAT64': ['64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff'],
  'discard only': ['100::', '100::ffff:ffff:ffff:ffff'],
  'dummy prefix': ['100:0:0:1::', '100:0:0:1:ffff:ffff:ffff:ffff'],
  Teredo: ['2001::', '2001:0:ffff:ffff:ffff:ffff:ffff:ffff'],
  'port control anycast': ['2001:1::1', '2001:1::3'],
  benchmarking: ['2001:2::', '2001:2:0:ffff:ffff:ffff:ffff:ffff'],
  AMT: ['2001:3::', '2001:3:ffff:ffff:ffff:ffff:ffff:ffff'],
  'AS112-v6': ['2001:4:112::', '2001:4:112:ffff:ffff:ffff:ffff:ffff'],
  ORCHID: ['2001:10::', '2001:1f:ffff:ffff:ffff:ffff:ffff:ffff'],
  ORCHIDv2: ['2001:20::', '2001:2f:ffff:ffff:ffff:ffff:ffff:ffff'],
  'drone identifiers': ['2001:30::', '2001:3f:ffff:ffff:ffff:ffff:ffff:ffff'],
  'protocol assignments': ['2001:40::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff'],
  documentation: ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'],
  '6to4': ['2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  'direct delegation AS112': ['2620:4f:8000::', '2620:4f:8000:ffff:ffff:ffff:ffff:ffff'],
  'documentation 3fff': ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff'],
  'segment routing': ['5f00::', '5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  'unique local': ['fc00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  'link local': ['fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  'site local': ['fec0::', 'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  multicast: ['ff00::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
}
/** Refused although they are in none of these ranges, or in no form of them. */
const OTHERS = { 'Azure wire server': '168.63.129.16', 'with a zone': 'fe80::1%eth0' }
/** Neighbours just outside, and ordinary addresses. */
const ORDINARY = [
  ...['1.0.0.0', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255'],
  ...['128.0.0.0', '169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '192.0.1.0'],
  ...['192.167.255.255', '192.169.0.0', '198.17.255.255', '198.20.0.0', '223.255.255.255', '168.63.129.15'],
  ...['2000::1', '2001:200::1', '2001:db7::1', '2003::1', '2606:4700:4700::1111', '2a00:1450::1', '3ffe::1'],
]

test('both ends of every special range are refused, of IPv4 and of IPv6', () => {
  for (const [name, ends] of [...Object.entries(SPECIAL_V4), ...Object.entries(SPECIAL_V6)])
    for (const address of ends) assert.equal(typeof refusal(address, []), 'string', `${name}: ${address}`)
  for (const [name, address] of Object.entries(OTHERS))
    assert.equal(typeof refusal(address, []), 'string', name)
})

test('addresses next to the special ranges are allowed', () => {
  for (const address of ORDINARY) assert.equal(refusal(address, []), null, address)
})

test('an allowed range opens itself and nothing else', () => {
  const open = (address: string, ...ranges: string[]) => refusal(address, ranges.map(parseCidr)) === null
  assert.ok(open('10.1.2.3', '10.0.0.0/8'))
  assert.ok(open('192.168.7.7', '10.0.0.0/8', '192.168.7.0/24'))
  assert.ok(open('fd12::1', 'fd12::/16'))
  assert.ok(!open('192.168.8.7', '10.0.0.0/8', '192.168.7.0/24'))
  assert.ok(!open('127.0.0.1', '10.0.0.0/8'))
  assert.ok(!open('::1', '127.0.0.0/8'))
  assert.ok(!open('64:ff9b::a00:1', '10.0.0.0/8'))
  assert.ok(!open('fd13::1', 'fd12::/16'))
})

/** Spellings of 127.0.0.1 (and of ::1) that some parser or resolver understands. */
const SPELLINGS = [
  ...['127.0.0.1', '127.0.0.1.', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7F.1', '017700000001'],
  ...['0177.0.0.01', '127.0.0.0x1', '１２７.０.０.１', '127。0。0。1', '①②⑦.0.0.1'],
  ...['127.1.2.3', '0.0.0.0', '0', 'localhost', 'LOCALHOST', 'localhost.', '%6c%6fcalhost', '127%2e0.0.1'],
  ...['[::1]', '[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[0:0:0:0:0:ffff:7f00:0001]'],
  ...['[::127.0.0.1]', '[::ffff:0:127.0.0.1]', '[64:ff9b::127.0.0.1]', '[64:ff9b:1::7f00:1]'],
  ...['[2002:7f00:1::]', '[::]', '[::0.0.0.0]'],
]

test('no spelling of loopback opens a connection, at registration or at delivery', async (t) => {
  const listener = await startMute(t)
  const guard = createGuard({ allow: [] })
  const send = deliverer({ allow: [] })
  for (const host of SPELLINGS) {
    const url = `https://${host}:${listener.port}/hook`
    await assert.rejects(guard.checkUrl(url), (error) => {
      assert.ok(error instanceof Problem, `${host}: ${error}`)
      assert.equal(error.code, 'webhook_refused', host)
      return true
    })
    const attempt = await send(deliveryTo(url))
    assert.equal(attempt.statusCode, null, host)
    assert.match(attempt.reason ?? 'delivered', /^Webhook URL is refused: /, host)
  }
  assert.equal(listener.connections(), 0)
  await knock(listener.port)
  assert.equal(listener.connections(), 1)
})

/** Answers of an attacker's name server, once the URL is registered. */
const REBOUND: Record<string, string[]> = {
  loopback: ['127.0.0.1'],
  'public first, loopback second': ['93.184.215.14', '127.0.0.1'],
  'loopback first, public second': ['127.0.0.1', '93.184.215.14'],
  'loopback among IPv6': ['2606:4700:4700::1111', '::1'],
  'mapped loopback': ['::ffff:127.0.0.1'],
  'NAT64 loopback': ['64:ff9b::7f00:1'],
  'the unspecified address': ['0.0.0.0'],
  metadata: ['169.254.169.254'],
}

/** The two that every machine has, and that a reason may name. */
const LOOPBACK_ITSELF = ['127.0.0.1', '::1']

test('a name that turns to a special address after its registration is not connected to', async (t) => {
  const listener = await startMute(t)
  const url = `https://${HOST_NAME}:${listener.port}/hook`
  for (const [name, addresses] of Object.entries(REBOUND)) {
    let asked = 0
    const resolve = async () => (asked++ === 0 ? ['93.184.215.14'] : addresses)
    await createGuard({ allow: [], resolve }).checkUrl(url)
    const { statusCode, reason } = await deliverer({ allow: [], resolve })(deliveryTo(url))
    assert.deepEqual([asked, statusCode], [2, null], name)
    const refused = /^Webhook URL is refused: hook\.example is not on the public internet \(/
    assert.match(reason ?? 'delivered', refused, name)
    for (const address of addresses)
      if (!LOOPBACK_ITSELF.includes(address)) assert.ok(!reason?.includes(address), name)
  }
  assert.equal(listener.connections(), 0)
})

test('the address checked is the address connected to: a name is asked once for each delivery', async (t) => {
  const authority = makeAuthority(t)
  const receiver = await startReceiver(t, authority.issue(`DNS:${HOST_NAME}`))
  let asked = 0
  // A second query would be answered with an address on which nothing listens.
  const resolve = async () => [asked++ === 0 ? '127.0.0.1' : '127.9.9.9']
  const send = deliverer({ resolve, caFile: authority.caFile })
  const attempt = await send(deliveryTo(`https://${HOST_NAME}:${receiver.port}/hook`))
  assert.partialDeepStrictEqual(attempt, { statusCode: 204, reason: null })
  assert.equal(asked, 1)
  assert.equal(receiver.received[0]?.headers.host, `${HOST_NAME}:${receiver.port}`)
})

test('the other addresses of a name are tried when one refuses', async (t) => {
  const authority = makeAuthority(t)
  const receiver = await startReceiver(t, authority.issue(`DNS:${HOST_NAME}`))
  const resolve = async () => ['127.9.9.9', '127.0.0.1']
  const send = deliverer({ resolve, caFile: authority.caFile })
  const attempt = await send(deliveryTo(`https://${HOST_NAME}:${receiver.port}/hook`))
  assert.partialDeepStrictEqual(attempt, { statusCode: 204, reason: null })
  const nobody = await send(deliveryTo(`https://${HOST_NAME}:${await freePort()}/hook`))
  assert.equal(nobody.statusCode, null)
  assert.match(nobody.reason ?? '', /ECONNREFUSED/)
})

/** Name servers that do not answer with addresses. */
const UNRESOLVED: Record<string, { resolve: () => Promise<string[]>; says: RegExp }> = {
  'no such name': {
    resolve: async () => Promise.reject(new Error('ENOTFOUND')),
    says: /hook\.example does not resolve \(ENOTFOUND\)/,
  },
  'no address': { resolve: async () => [], says: /hook\.example has no address/ },
  'no address but text': { resolve: async () => ['not an address'], says: /refused: hook\.example/ },
}

test('of loopback the refused address and its flag are named, of other ranges to the operator only', async () => {
  const allow = [parseCidr('127.0.0.0/8')]
  const said = (addresses: string[], host: string, namesAddresses = false) =>
    createGuard({ allow, resolve: async () => addresses, namesAddresses })
      .checkUrl(`https://${host}/hook`)
      .catch(({ message }) => message)
  for (const host of ['localhost', 'localhost.', 'hook.example'])
    assert.equal(
      await said(['127.0.0.1', '::1'], host),
      `Webhook URL is refused: ${host} is not on the public internet (loopback, ::1); --webhook-allow-cidr ::1/128 allows it.`,
    )
  const inside = ['93.184.215.14', '10.1.2.3']
  assert.match(await said(inside, 'hook.example'), /is not on the public internet \(private\)\.$/)
  assert.match(
    await said(inside, 'hook.example', true),
    /internet \(private, 10\.1\.2\.3\); --webhook-allow-cidr 10\.1\.2\.3\/32 allows it\.$/,
  )
  assert.match(await said([], '10.1.2.3'), /10\.1\.2\.3 is not on the public internet \(private\)\.$/)
})

test('a name without an address is refused with the reason', async () => {
  const url = `https://${HOST_NAME}/hook`
  for (const [name, { resolve, says }] of Object.entries(UNRESOLVED)) {
    await assert.rejects(createGuard({ allow: [], resolve }).checkUrl(url), (error) => {
      assert.ok(error instanceof Problem, `${name}: ${error}`)
      assert.match(error.message, says)
      return true
    })
    const attempt = await deliverer({ allow: [], resolve })(deliveryTo(url))
    assert.equal(attempt.statusCode, null)
    assert.match(attempt.reason ?? 'delivered', says)
  }
})

// Names to addresses, with a name server of the test's own on loopback.

const PUBLIC = [93, 184, 215, 14]
const V6 = [0x26, 0x06, 0x47, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
const NO_SUCH_NAME = 3
const SERVER_FAILURE = 2

test('every address of a name counts, of both families', async (t) => {
  const { address } = await startNameServer(t, {
    'both.example': { [TYPE_A]: [PUBLIC, [127, 0, 0, 1]], [TYPE_AAAA]: [V6] },
    'four.example': { [TYPE_A]: [[1, 2, 3, 4]] },
    'six.example': { [TYPE_AAAA]: [V6] },
  })
  const resolve = createResolve([address])
  assert.deepEqual((await resolve('both.example')).sort(), ['127.0.0.1', '2606:4700::1', '93.184.215.14'])
  assert.deepEqual(await resolve('four.example'), ['1.2.3.4'])
  assert.deepEqual(await resolve('six.example'), ['2606:4700::1'])
})

test('localhost is loopback, whatever a name server says of it', async (t) => {
  const { address, asked } = await startNameServer(t, { localhost: { [TYPE_A]: [PUBLIC] } })
  const resolve = createResolve([address])
  for (const host of ['localhost', 'LOCALHOST', 'localhost.', 'a.localhost'])
    assert.deepEqual(await resolve(host), ['127.0.0.1', '::1'], host)
  assert.deepEqual(asked, [])
})

test('a name server that fails is an error, and so is a name that nobody knows', async (t) => {
  const { address } = await startNameServer(t, {
    'broken.example': { code: SERVER_FAILURE },
    'nobody.invalid': { code: NO_SUCH_NAME },
  })
  const resolve = createResolve([address])
  await assert.rejects(resolve('broken.example'), /ESERVFAIL/)
  await assert.rejects(resolve('nobody.invalid'), /nobody\.invalid|no answer in time/)
})

test('few names at a time may hold a thread of the system until it knows them', async (t) => {
  const names = Array.from({ length: 20 }, (_, i) => `nobody${i}.invalid`)
  const zone = Object.fromEntries(names.map((name) => [name, { code: NO_SUCH_NAME }]))
  const resolve = createResolve([(await startNameServer(t, zone)).address])
  const ends = await Promise.allSettled(names.map(resolve))
  assert.ok(ends.some((end) => end.status === 'rejected' && /too many names/.test(String(end.reason))))
  await assert.rejects(resolve('nobody0.invalid'), /nobody0\.invalid|no answer in time/)
})
