// The listening socket: plain or TLS, with time limits, and a close that lets what is in flight finish. Nothing a
// client sends, or leaves unsent, may reach further than its own connection.

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { H3 } from 'h3'
import { toNodeHandler } from 'h3/node'
import { makeServer, type Tls } from './listen/server.ts'

export type Listener = {
  url: string
  /** The certificate clients are shown, as PEM; null without TLS. */
  cert: string | null
  /** Takes no new connection, ends the idle ones, and resolves when the last call is answered. */
  close: () => Promise<void>
  /** Cuts off whatever is still connected. */
  end: () => void
}
/** What answers; `fetch` is looked up at every call, so that it may be replaced while the socket stays. */
export type Answering = Pick<H3, 'fetch'>
export type ListenOptions = { host: string; port: number; tls: Tls }

const HEADERS_TIMEOUT_MS = 10_000
const REQUEST_TIMEOUT_MS = 30_000
/** How often the two limits above are looked at. */
const TIMEOUT_CHECK_MS = 2_000
/** Above the usual 60 s of a proxy or a poller, so that it is they who close. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000

/** Read by Node when the server begins to listen. */
const LIMITS = {
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  connectionsCheckingInterval: TIMEOUT_CHECK_MS,
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
}

/** Listens on exactly this host and port (0 for any free one). Throws when it cannot. */
export async function listenOn(app: Answering, { host, port, tls }: ListenOptions): Promise<Listener> {
  const { server, cert } = await makeServer(guarded(app), tls)
  Object.assign(server, LIMITS)
  server.on('clientError', refuseBrokenHttp)
  const connections = follow(server, tls ? 'secureConnection' : 'connection')
  await bind(server, host, port)
  const shown = host.includes(':') ? `[${host}]` : host
  const { port: bound } = server.address() as AddressInfo
  return {
    cert,
    url: `${tls ? 'https' : 'http'}://${shown}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        connections.endIdle()
      }),
    end: connections.endAll,
  }
}

function bind(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const reason = REASONS[error.code ?? ''] ?? error.message
      reject(new Error(`Cannot listen on port ${port} of ${JSON.stringify(host)}: ${reason}.`))
    })
    server.listen({ host, port }, () => {
      server.removeAllListeners('error')
      // A connection that cannot be accepted, for want of file descriptors say, is the loss of that client alone.
      server.on('error', () => {})
      resolve()
    })
  })
}

const REASONS: Record<string, string> = {
  EADDRINUSE: 'it is taken',
  EADDRNOTAVAIL: 'that is no address of this machine',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'there is no such host',
  EACCES: 'it takes a right that this user does not have',
}

/** Hands calls to the app. Should one fail outside it, on a broken socket say, its connection ends and nothing else. */
function guarded(app: Answering): (request: IncomingMessage, response: ServerResponse) => void {
  const handle = toNodeHandler({ fetch: (request: Request) => app.fetch(request) } as H3)
  return (request, response) => {
    request.on('error', () => {})
    response.on('error', () => {})
    const attempt = async (): Promise<void> => {
      await handle(request, response)
    }
    attempt().catch(() => response.destroy())
  }
}

/** Knows which connections wait for nothing, so that a stop can end them at once, and the others after their answer. */
function follow(server: Server, opened: string): { endIdle: () => void; endAll: () => void } {
  const sockets = new Set<Socket>()
  const calls = new Map<Socket, number>()
  let closing = false

  const count = (socket: Socket, change: number): void => {
    const open = (calls.get(socket) ?? 0) + change
    calls.set(socket, open)
    if (closing && open === 0) socket.end()
  }
  // Under TLS there are two sockets to a connection: the one that came in, and the one that speaks HTTP.
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on(opened, (socket: Socket) => {
    calls.set(socket, 0)
    socket.on('close', () => calls.delete(socket))
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    if (!calls.has(socket)) return
    count(socket, 1)
    // Whether it was answered or its client left.
    response.on('close', () => calls.has(socket) && count(socket, -1))
  })

  return {
    endIdle() {
      closing = true
      for (const [socket, open] of calls) if (open === 0) socket.destroy()
    },
    endAll() {
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** What is not HTTP never reaches a route; its error body is JSON like every other one. */
function refuseBrokenHttp(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const status = BROKEN[error.code ?? ''] ?? '400 Bad Request'
  const body = JSON.stringify({ detail: status.slice(4) })
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n` +
      `Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
}

const BROKEN: Record<string, string> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}
