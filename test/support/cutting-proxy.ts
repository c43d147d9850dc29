// A way to a PostgreSQL server that is cut when a commit comes along it.

import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import type { Server } from './postgres-server.ts'

/**
 * What becomes of the next commit: it arrives and its answer does not, or cannot be read; it does not arrive; or its
 * answer says that it was undone.
 */
export type Fate = 'answer lost' | 'answer garbled' | 'never arrives' | 'answered with rollback'

/** By the folder of its socket. */
type Place = Pick<Server, 'folder'>
/** A test, or what else ends. */
type Ending = { after: (end: () => void) => void }

export type Proxy = {
  url: string
  /** Lets the next commit meet its fate; resolves then. `after` goes before anybody may connect anew. */
  next: (fate: Fate, after?: () => Promise<void>) => Promise<void>
  /** Ends every connection there is. */
  cut: () => void
  /** Where connections lead from now on. */
  leadTo: (server: Place) => void
}

const COMMIT = Buffer.from('commit\0')
const COMMITTED = Buffer.from('COMMIT\0')
const ROLLED_BACK = Buffer.from('ROLLBA\0')
/** The kind of a message, and its length. */
const HEADER_BYTES = 5
const A_ROW = Buffer.from('D')

export async function proxyTo(t: Ending, server: Place, database: string): Promise<Proxy> {
  let to = server
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  let plan: { fate: Fate; after: () => Promise<void>; met: () => void } | null = null
  let open = Promise.resolve()
  const sockets = new Set<Socket>()

  async function carry(client: Socket): Promise<void> {
    await open
    const upstream = connect(`${to.folder}/.s.PGSQL.5432`)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    }
    let mine: typeof plan = null
    const meet = () => {
      client.destroy()
      open = mine?.after() ?? open
      mine?.met()
    }
    client.on('data', (bytes: Buffer) => {
      if (plan && bytes.includes(COMMIT)) [mine, plan] = [plan, null]
      if (mine?.fate !== 'never arrives') return void upstream.write(bytes)
      upstream.destroy()
      meet()
    })
    upstream.on('data', (bytes: Buffer) => {
      if (mine === null || !bytes.includes(COMMITTED)) return void client.write(bytes)
      if (mine.fate === 'answer lost') return meet()
      const at = bytes.indexOf(COMMITTED)
      if (mine.fate === 'answer garbled') bytes.set(A_ROW, at - HEADER_BYTES)
      else bytes.set(ROLLED_BACK, at)
      client.write(bytes)
      mine.met()
    })
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  }

  const listener = createServer((client) => void carry(client))
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    cut()
    listener.close()
  })
  return {
    url: `postgres://tranche@127.0.0.1:${(listener.address() as AddressInfo).port}/${database}`,
    next: (fate, after = async () => {}) =>
      new Promise((met) => {
        plan = { fate, after, met }
      }),
    cut,
    leadTo: (server) => {
      to = server
    },
  }
}
