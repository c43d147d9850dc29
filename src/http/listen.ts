// The listening socket: plain or TLS, with time limits, and a close that lets calls in flight finish. Nothing that a
// client sends, or fails to send, may affect more than its own connection.

import type { RequestListener, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type H3, toNodeHandler } from 'h3'
import type { App } from './app.ts'
import { type Certificate, secureContextOf, type Tls } from './listen/certificate.ts'
import { type ConnectionLimits, createConnections } from './listen/connections.ts'
import { makeServer } from './listen/server.ts'
import { LIMITS, STALL_MS } from './listen/time-limits.ts'

export type Listener = {
  url: string
  /** The certificate clients are shown, as PEM; null without TLS. */
  cert: string | null
  /**
   * Shows new clients another certificate. Throws when it is not a certificate, or does not match the key, and keeps
   * the old one.
   */
  renew: (certificate: Certificate) => void
  /** Takes no new connection, ends the idle ones, and resolves when the last call is answered. */
  close: () => Promise<void>
  /** Takes no new connection, and cuts off whatever is still connected. */
  end: () => void
}
/**
 * What answers; `fetch` and `knock` are looked up at every call, so that they may be replaced while the socket stays.
 * `knock` may answer a call itself, and is then false.
 */
export type Answering = Pick<H3, 'fetch'> & Partial<Pick<App, 'knock'>>
export type ListenOptions = Partial<ConnectionLimits> & {
  host: string
  port: number
  tls: Tls
  /** Gives ids to the refusals of what is not HTTP. */
  uuid: () => string
  onTurnedAway?: (reason: string) => void
  /** How long an answer may lie here without the client taking any of it. */
  stallMs?: number
}

/** Listens on exactly this host and port (0 for any free one). Throws when it cannot. */
export async function listenOn(app: Answering, options: ListenOptions): Promise<Listener> {
  const { host, port, tls } = options
  const connections = createConnections({
    connectionsMax: Number.POSITIVE_INFINITY,
    connectionsPerAddressMax: Number.POSITIVE_INFINITY,
    onTurnedAway: () => {},
    stallMs: STALL_MS,
    ...options,
    isTls: tls !== null,
    handle: guarded(app),
  })
  const { server, cert } = await makeServer(connections.accept, tls)
  // The app refuses a call without Host, in JSON.
  Object.assign(server, LIMITS, { requireHostHeader: false })
  // The app decides whether a body is wanted, and what else may be expected.
  server.on('checkContinue', connections.accept).on('checkExpectation', connections.accept)
  connections.watch(server)
  await bind(server, host, port)
  const shown = host.includes(':') ? `[${host}]` : host
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `${tls ? 'https' : 'http'}://${shown}:${bound}`,
    cert,
    renew: (certificate) => {
      if ('setSecureContext' in server) server.setSecureContext(secureContextOf(certificate))
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        connections.drain()
      }),
    end: () => {
      server.close()
      connections.endAll()
    },
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
      // If a connection cannot be accepted, for example for lack of file descriptors, only that client is affected.
      server.on('error', () => {})
      resolve()
    })
  })
}

const REASONS: Record<string, string> = {
  EADDRINUSE: 'it is taken; stop what listens there, or choose another port',
  EADDRNOTAVAIL: 'this machine does not have that address',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'there is no such host',
  EACCES: 'it takes a right that this user does not have',
}

/**
 * Hands calls to the app. If a call fails outside the app, for example on a broken socket, only its connection ends.
 */
function guarded(app: Answering): RequestListener {
  const handle = toNodeHandler({ fetch: (request: Request) => app.fetch(request) } as H3)
  return (request, response) => {
    const attempt = async (): Promise<void> => {
      const knocked = app.knock?.(request, response) ?? true
      const goesOn = knocked instanceof Promise ? await knocked : knocked
      if (goesOn && !request.socket.destroyed) await handle(request, response)
    }
    attempt().catch(() => response.destroy())
  }
}
