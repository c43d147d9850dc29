// Where serve listens: for partners and, if it is told to, for those who run it.

import type { Tls } from '../../http/listen/certificate.ts'
import type { ConnectionLimits } from '../../http/listen/connections.ts'
import { type Answering, type Listener, listenOn } from '../../http/listen.ts'
import type { Ops } from '../../http/ops/endpoints.ts'
import { createOpsApp } from '../../http/ops/listener.ts'
import type { Log } from '../../log.ts'
import { OPS_CONNECTIONS_MAX } from './default-connection-limits.ts'
import type { OpsPlace } from './ops-listener.ts'

export type Listeners = { api: Listener; ops: Listener | null } & Pick<Listener, 'close' | 'end'>
type ListenersOptions = {
  host: string
  port: number
  tls: Tls
  connections: ConnectionLimits
  ops: Ops
  opsListen: OpsPlace | null
  log: Log
  uuid: () => string
}

/** Opens both or none. That of operations is plain HTTP: it is for this machine, or behind a tunnel. */
export async function openListeners(answering: Answering, options: ListenersOptions): Promise<Listeners> {
  const { host, port, tls, connections, ops, opsListen, log, uuid } = options
  const common = {
    uuid,
    onTurnedAway: (reason: string) => log.warn({ reason }, 'connections are turned away'),
  }
  const api = await listenOn(answering, { host, port, tls, ...common, ...connections })
  if (opsListen === null) return { api, ops: null, close: api.close, end: api.end }
  const limits = {
    connectionsMax: OPS_CONNECTIONS_MAX,
    connectionsPerAddressMax: Math.min(OPS_CONNECTIONS_MAX, connections.connectionsPerAddressMax),
  }
  try {
    const own = await listenOn(createOpsApp({ ops, log, uuid }), {
      ...opsListen,
      tls: null,
      ...common,
      ...limits,
    })
    return {
      api,
      ops: own,
      close: async () => {
        await Promise.all([api.close(), own.close()])
      },
      end: () => [api, own].map(({ end }) => end()),
    }
  } catch (error) {
    await api.close()
    throw error
  }
}
