// The listening socket: plain or TLS, with time limits, and a close that lets what is in flight finish.

import type { Duplex } from 'node:stream'
import type { H3 } from 'h3'
import { toNodeHandler } from 'h3/node'
import { listen } from 'listhen'

export type Listener = { url: string; close: () => Promise<void> }
export type ListenOptions = { host: string; port: number; tls: { cert: string; key: string } | null }

const HEADERS_TIMEOUT_MS = 10_000
const REQUEST_TIMEOUT_MS = 30_000
/** Above the usual 60 s of a proxy or a poller, so that it is they who close. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000

/** Listens on exactly this host and port (0 for any free one). Throws when the port is taken. */
export async function listenOn(app: H3, { host, port, tls }: ListenOptions): Promise<Listener> {
  const anyHost = host === '0.0.0.0' || host === '::'
  const listener = await listen(toNodeHandler(app), {
    hostname: host,
    // Left to itself listhen would go on to another port when this one is taken.
    port:
      port === 0 ? { port: 0, random: true } : { port, random: false, alternativePortRange: [port, port] },
    https: tls ?? false,
    public: anyHost,
    isProd: true,
    showURL: false,
    open: false,
    clipboard: false,
    autoClose: false,
  })
  const { server } = listener
  server.on('clientError', refuseBrokenHttp)
  server.headersTimeout = HEADERS_TIMEOUT_MS
  server.requestTimeout = REQUEST_TIMEOUT_MS
  server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS
  if (port !== 0 && listener.address.port !== port) {
    await listener.close()
    throw new Error(`port ${port} cannot be used`)
  }
  const shown = host.includes(':') ? `[${host}]` : host
  return {
    url: `${tls ? 'https' : 'http'}://${shown}:${listener.address.port}`,
    close: () => listener.close(),
  }
}

/** What is not HTTP never reaches a route; its error body is JSON like every other one. */
function refuseBrokenHttp(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable) return
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
