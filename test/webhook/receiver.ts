// Receivers of wake-ups: real TLS on loopback, with certificates that a test's own authority issues.

import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { connect, createServer as createTcpServer } from 'node:net'
import type { TestContext } from 'node:test'
import type { Certificate } from '../support/certificate.ts'
import { type Listening, listen } from '../support/service.ts'

type Ending = Pick<TestContext, 'after'>

export const HOST_NAME = 'hook.example'

export type Received = { method: string; path: string; headers: IncomingMessage['headers']; raw: Buffer }
export type Answering = (response: ServerResponse, request: IncomingMessage, received: Received) => void

export type Receiver = {
  port: number
  received: Received[]
  /** Sockets that were opened to it, requests or not. */
  connections: () => number
  /** Resolves when so many requests have come in. */
  count: (requests: number) => Promise<void>
}

/** Answers 204 unless told otherwise. A negative answer, a hang or a stream is up to `answer`. */
export async function startReceiver(
  t: Ending,
  certificate: Certificate,
  answer: Answering = (response) => void response.writeHead(204).end(),
): Promise<Receiver> {
  const received: Received[] = []
  const waiting: { requests: number; resolve: () => void }[] = []
  const server = createServer(certificate, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { method = '', url: path = '', headers } = request
    const one = { method, path, headers, raw: Buffer.concat(chunks) }
    received.push(one)
    for (const { requests, resolve } of waiting) if (received.length >= requests) resolve()
    answer(response, request, one)
  })
  const { port, connections } = await listen(t, server)
  return {
    port,
    received,
    connections,
    count: (requests) =>
      new Promise((resolve) => {
        waiting.push({ requests, resolve })
        if (received.length >= requests) resolve()
      }),
  }
}

/** A plain TCP listener that takes a connection and says nothing: the far end of a TLS handshake that never comes. */
export const startMute = (t: Ending, host = '127.0.0.1'): Promise<Listening> =>
  listen(t, createTcpServer(), host)

/** Connects once and hangs up: shows that a listener counts. */
export async function knock(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.destroy()
  await once(socket, 'close')
}
