// Names to addresses, with a name server of the test's own on loopback.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createResolve } from '../../src/webhook/address-guard.ts'
import { startNameServer, TYPE_A, TYPE_AAAA } from './nameserver.ts'

const V6 = [0x26, 0x06, 0x47, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
const NO_SUCH_NAME = 3
const SERVER_FAILURE = 2

test('every address of a name counts, of both families', async (t) => {
  const { address } = await startNameServer(t, {
    'both.example': {
      [TYPE_A]: [
        [93, 184, 215, 14],
        [127, 0, 0, 1],
      ],
      [TYPE_AAAA]: [V6],
    },
    'four.example': { [TYPE_A]: [[1, 2, 3, 4]] },
    'six.example': { [TYPE_AAAA]: [V6] },
  })
  const resolve = createResolve([address])
  assert.deepEqual((await resolve('both.example')).sort(), ['127.0.0.1', '2606:4700::1', '93.184.215.14'])
  assert.deepEqual(await resolve('four.example'), ['1.2.3.4'])
  assert.deepEqual(await resolve('six.example'), ['2606:4700::1'])
})

test('localhost is loopback, whatever a name server says of it', async (t) => {
  const { address, asked } = await startNameServer(t, { localhost: { [TYPE_A]: [[93, 184, 215, 14]] } })
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
