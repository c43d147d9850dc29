// A name server on loopback, for the names that only a test knows.

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { TestContext } from 'node:test'

export const TYPE_A = 1
export const TYPE_AAAA = 28

type Zone = Record<string, { [TYPE_A]?: number[][]; [TYPE_AAAA]?: number[][]; code?: number }>

/** Answers from the zone, in the form of RFC 1035, section 4; a name that is not in it is never answered. */
export async function startNameServer(
  t: Pick<TestContext, 'after'>,
  zone: Zone,
): Promise<{ address: string; asked: string[] }> {
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
