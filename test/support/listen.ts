// Opens a server of a test's own on a free port of loopback, until the test ends.

import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { TestContext } from 'node:test'

export type Listening = {
  port: number
  /** Sockets that were opened to it, requests or not. */
  connections: () => number
}

/** Whatever is still open when the test ends is cut. */
export async function listen(
  t: Pick<TestContext, 'after'>,
  server: Server,
  host = '127.0.0.1',
): Promise<Listening> {
  const open = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    open.add(socket)
    socket.on('error', () => {}).on('close', () => open.delete(socket))
  })
  server.on('tlsClientError', () => {})
  server.listen(0, host)
  await once(server, 'listening')
  t.after(async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of open) socket.destroy()
    await closed
  })
  return { port: (server.address() as AddressInfo).port, connections: () => connections }
}
