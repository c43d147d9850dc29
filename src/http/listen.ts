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

/** What listhen takes for a host; anything else it would quietly replace by another one. */
const HOST = /^(?!-)[\dA-Za-z.:-]{1,63}(?<!-)$/

/** Listens on exactly this host and port (0 for any free one). Throws when it cannot. */
export async function listenOn(app: H3, { host, port, tls }: ListenOptions): Promise<Listener> {
  if (!HOST.test(host)) throw new Error(`${JSON.stringify(host)} is no host to listen on.`)
  const anyHost = host === '0.0.0.0' || host === '::'
  const options = {
    hostname: host,
    // Left to itself listhen would go on to another port when this one is taken, and print so on stdout.
    port: {
      port,
      random: port === 0,
      alternativePortRange: [port, port] as [number, number],
      verbose: false,
    },
    https: tls ?? false,
    public: anyHost,
    isProd: true,
    showURL: false,
    open: false,
    clipboard: false,
    autoClose: false,
  }
  const listener = await listen(toNodeHandler(app), options).catch((error: Error) => {
    if (error.name !== 'GetPortError') throw error
    if (port === 0) throw new Error(`Cannot listen on ${host}: it is no address of this machine.`)
    throw new Error(`Cannot listen on port ${port} of ${host}: it is taken, or no address of this machine.`)
  })
  const { server } = listener
  server.on('clientError', refuseBrokenHttp)
  server.headersTimeout = HEADERS_TIMEOUT_MS
  server.requestTimeout = REQUEST_TIMEOUT_MS
  server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS
  if (port !== 0 && listener.address.port !== port) {
    await listener.close()
    throw new Error(`Port ${port} is one that web clients refuse to call; give another.`)
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
