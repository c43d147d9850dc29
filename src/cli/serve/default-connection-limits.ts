// How many connections serve accepts: by default, as many as leave room for the files of the database.

import type { ConnectionLimits } from '../../http/listen/connections.ts'

/**
 * Descriptors that connections must leave alone: the database and its log, fifty deliveries at once with the sockets of
 * their look-ups, one look-up for each tenant, whatever Node opens.
 */
export const DESCRIPTORS_KEPT = 160
/** At the listener of operations: for a scraper, a person and other monitors. Partners never connect to it. */
export const OPS_CONNECTIONS_MAX = 32
/** More than any partner needs; allowing more would only offer memory to somebody who wants to use it up. */
export const CONNECTIONS_MAX = 10_000
const CONNECTIONS_MIN = 16
/** The share of all connections that one address may have by default. */
const ADDRESS_SHARE = 4

export type ConnectionOptions = { maxConnections?: number; maxConnectionsPerAddress?: number }
type Beside = { opsListen?: object | null }

export function connectionLimitsOf(options: ConnectionOptions & Beside): ConnectionLimits {
  const kept = DESCRIPTORS_KEPT + (options.opsListen ? OPS_CONNECTIONS_MAX : 0)
  const connectionsMax =
    options.maxConnections ?? Math.min(CONNECTIONS_MAX, Math.max(CONNECTIONS_MIN, descriptorsMax() - kept))
  const share = Math.max(1, Math.floor(connectionsMax / ADDRESS_SHARE))
  return { connectionsMax, connectionsPerAddressMax: options.maxConnectionsPerAddress ?? share }
}

/** The soft limit of open files, which Node raises to the hard one; infinite where no limit can be read. */
function descriptorsMax(): number {
  const { report } = process
  // The rest of the report asks the network for names, which takes time.
  Object.assign(report, { excludeNetwork: true })
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft: number | string } } }
  const soft = Number(userLimits?.open_files?.soft)
  return Number.isFinite(soft) ? soft : Number.POSITIVE_INFINITY
}
