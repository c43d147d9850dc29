// How long each thing may take that a client does on a connection.

/** Read by Node: the times when the server begins to listen, the others at every connection. */
export const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  /** How often the two limits above are looked at. */
  connectionsCheckingInterval: 2_000,
  /** Longer than the usual 60 s of a proxy or a poller, so that they are the ones to close. */
  keepAliveTimeout: 75_000,
}

/** How long a TLS handshake may take. */
export const HANDSHAKE_TIMEOUT_MS = 10_000
/** How long an answer may lie here without the client taking any of it. */
export const STALL_MS = 30_000
