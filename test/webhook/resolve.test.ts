// Names to addresses, with a name server of the test's own on loopback.

import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type TestContext, test } from 'node:test'
import { createResolve } from '../../src/webhook/resolve.ts'

const TYPE_A = 1
const TYPE_AAAA = 28

type Zone = Record<string, { [TYPE_A]?: number[][]; [TYPE_AAAA]?: number[][]; code?: number }>

/** Answers from the zone, in the form of RFC 1035, section 4; a name that is not in it is never answered. */
async function startNameServer(t: TestContext, zone: Zone): Promise<{ address: string; asked: string[] }> {
  const asked: string[] = []
  const socket = createSocket('udp4').on('message', (question, from) => {
    const { name, end } = nameAt(question, 12)
    const type = question.readUInt16BE(end)
    asked.push(name)
    const known = zone[name.toLowerCase()]
    if (!known) return
    const records = (type === TYPE_A ? known[TYPE_A] : known[TYPE_AAAA]) ?? []
    const header = Buffer.alloc(12)
    question.copy(header, 0, 0, 2)
    header.writeUInt16BE(0x8580 | (known.code ?? 0), 2)
    header.writeUInt16BE(1, 4)
    header.writeUInt16BE(records.length, 6)
    const answers = records.map((data) =>
      Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length, ...data]),
    )
    socket.send(Buffer.concat([header, question.subarray(12, end + 4), ...answers]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.after(() => void socket.close())
  return { address: `127.0.0.1:${socket.address().port}`, asked }
}

function nameAt(message: Buffer, start: number): { name: string; end: number } {
  const labels: string[] = []
  let at = start
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), end: at + 1 }
}

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

test('name servers that never answer hold up no other name and nothing else of the process', async (t) => {
  const { address } = await startNameServer(t, { 'good.example': { [TYPE_A]: [[1, 2, 3, 4]] } })
  const resolve = createResolve([address])
  let ended = 0
  const silent = Array.from({ length: 20 }, (_, index) =>
    assert.rejects(resolve(`silent${index}.example`), /ETIMEOUT|no answer in time/).then(() => {
      ended += 1
    }),
  )
  assert.deepEqual(await resolve('good.example'), ['1.2.3.4'])
  await lookup('localhost')
  await readFile(import.meta.filename)
  assert.equal(ended, 0)
  await Promise.all(silent)
})
