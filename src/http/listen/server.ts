// Node's HTTP server as listhen makes it, and nothing else of listhen: no search for a port, no closing, no printing.

import type { RequestListener, Server } from 'node:http'
import type { Server as TlsServer } from 'node:https'
import { certificateOf, secureContextOf, type Tls } from './certificate.ts'

export type OpenServer = {
  server: Server | TlsServer
  /** What it shows its clients, as PEM; null without TLS. */
  cert: string | null
}

/** A server that is closed: it has `handle`, and no port yet. */
export async function makeServer(handle: RequestListener, tls: Tls): Promise<OpenServer> {
  const { listen } = await import('listhen')
  const { server, https } = await listen(handle, {
    // listhen cannot make a server without opening it, and an error at that moment would end the process. A free port
    // of this machine always works; `bind` then takes the requested port, and knows what to say if that fails.
    hostname: '127.0.0.1',
    port: { port: 0, host: NOWHERE },
    public: false,
    https: tls === null ? false : certificateOf(tls),
    // Says nothing about ports.
    isTest: true,
    isProd: false,
    showURL: false,
    open: false,
    clipboard: false,
    // It would end the process at a signal, even with calls in flight.
    autoClose: false,
  })
  for (const event of ['connection', 'secureConnection', 'request'])
    dropFollowers(server, event, tls !== null)
  await new Promise((resolve) => server.close(resolve))
  // listhen takes no ciphers.
  if (https !== false && 'setSecureContext' in server) server.setSecureContext(secureContextOf(https))
  return { server, cert: https === false ? null : https.cert }
}

/**
 * A list of addresses that is empty. listhen looks for a free port on the given addresses by opening and closing it,
 * and another program may take the port in between. With no addresses, it leaves the port to the system.
 */
const NOWHERE = Object.assign([], { toString: () => 'nowhere' }) as unknown as string

/**
 * Removes the bookkeeping of http-shutdown, which listhen adds after the listeners that Node or we have for an event.
 * It marks every socket at every answer, and could only end a stop in a way that loses answers.
 */
function dropFollowers(server: Server, event: string, isTls: boolean): void {
  const own = event === 'secureConnection' && !isTls ? 0 : 1
  for (const listener of server.listeners(event).slice(own)) server.off(event, listener as () => void)
}
