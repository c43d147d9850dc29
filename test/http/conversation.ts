// A connection held by hand: what is written when, what has come back so far, and when the service ends it.

import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export type Conversation = {
  socket: Socket
  received: () => string
  /** Resolves once what has come back matches; rejects when the connection ends before that. */
  until: (pattern: RegExp) => Promise<void>
  /** Resolves when the service has ended its side, or the connection is gone. */
  ended: Promise<void>
}

/** Opens a connection that stays open on this side until it is closed here. */
export async function converse(url: string): Promise<Conversation> {
  const { protocol, hostname: host, port } = new URL(url)
  const at = { host, port: Number(port) }
  const socket: Socket =
    protocol === 'https:' ? connectTls({ ...at, rejectUnauthorized: false }) : connect(at)
  socket.allowHalfOpen = true
  let received = ''
  socket.setEncoding('latin1').on('data', (text) => {
    received += text
  })
  socket.on('error', () => {})
  const ended = new Promise<void>((resolve) => socket.once('end', resolve).once('close', resolve))
  await new Promise((resolve, reject) => {
    socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', resolve).once('error', reject)
  })
  return {
    socket,
    received: () => received,
    ended,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (pattern.test(received)) resolve()
        }
        socket.on('data', look)
        ended.then(() => reject(new Error(`ended before ${pattern}: ${received}`)))
        look()
      }),
  }
}

/** The status lines of everything that came back, one after another. */
export const statuses = (received: string): number[] =>
  [...received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
