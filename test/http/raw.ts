// Requests byte by byte, as no well-behaved client sends them, and connections under the test's control.

import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

/** Where a listener of a test listens. */
export const LOCAL = { host: '127.0.0.1', port: 0, tls: null, uuid: () => 'u' }

export type RawAnswer = { status: number; headers: Map<string, string>; body: string }

/**
 * Writes the parts to a fresh connection and reads until the service closes it or a whole answer is in. Resets after
 * the answer are not a failure: a service that refuses a body stops reading it.
 */
export async function exchange(url: string, parts: readonly (string | Uint8Array)[]): Promise<RawAnswer> {
  const { socket, received, ended } = await converse(url)
  // "100 Continue" only says that the body may come.
  const answer = () => received().replace(CONTINUE, '')
  const isIn = new Promise<void>((resolve) => socket.on('data', () => isWhole(answer()) && resolve()))
  socket.setTimeout(20_000, () => socket.destroy())
  for (const part of parts) socket.write(part)
  await Promise.race([isIn, ended])
  socket.destroy()
  if (answer() === '') throw new Error('the connection ended without an answer')
  return parse(answer())
}

const CONTINUE = /^HTTP\/1\.1 100 [^\r]*\r\n\r\n/

/** A request head with the given key; `lines` are further header lines. */
export const head = (method: string, path: string, key: string, lines: readonly string[] = []): string =>
  [`${method} ${path} HTTP/1.1`, 'Host: 127.0.0.1', `Authorization: Bearer ${key}`, ...lines, '', ''].join(
    '\r\n',
  )

export const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`
export const LAST_CHUNK = '0\r\n\r\n'

function isWhole(received: string): boolean {
  const end = received.indexOf('\r\n\r\n')
  if (end < 0) return false
  const length = /^content-length: (\d+)/im.exec(received.slice(0, end))
  return length !== null && received.length >= end + 4 + Number(length[1])
}

function parse(received: string): RawAnswer {
  const end = received.indexOf('\r\n\r\n')
  const [first = '', ...lines] = received.slice(0, end).split('\r\n')
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
    }),
  )
  return { status: Number(first.split(' ')[1]), headers, body: received.slice(end + 4) }
}

// A connection under the test's control: when it writes, the bytes received so far, and when the service ends it.

export type Conversation = {
  socket: Socket
  received: () => string
  /** Resolves once the received bytes match; rejects when the connection ends before that. */
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

/** The status codes of all received answers, one after another. */
export const statuses = (received: string): number[] =>
  [...received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
