// The listening socket: plain or TLS, with time limits, and a close that lets what is in flight finish.

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
