// Names to addresses. Partners choose the names, and a name server that never answers is theirs too: so the questions
// are asked by sockets of our own. The system's look-up would hold one of the four threads that all look-ups share.

import { lookup, Resolver } from 'node:dns/promises'

export type Resolve = (host: string) => Promise<string[]>

export const RESOLVE_TIMEOUT_MS = 5_000
/** Two tries, the second twice as long: both fit into the limit above. */
const QUERY_TIMEOUT_MS = 1_500
const QUERY_TRIES = 2
/** Of the threads that all look-ups share, as many as names outside the DNS may wait on. */
const SYSTEM_LOOKUPS_MAX = 2
/** The DNS has no such name, or there is no DNS here. */
const ABSENT = new Set(['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'])

/** `servers` are name servers to ask in place of the system's. */
export function createResolve(servers: readonly string[] | null = null): Resolve {
  return async (host) => {
    // RFC 6761, section 6.3: this name means loopback and a name server is not asked.
    if (/(^|\.)localhost\.?$/i.test(host)) return ['127.0.0.1', '::1']
    const resolver = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: QUERY_TRIES })
    if (servers) resolver.setServers(servers)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer in time')), RESOLVE_TIMEOUT_MS)
    })
    try {
      return await Promise.race([query(resolver, host), late])
    } finally {
      clearTimeout(timer)
      resolver.cancel()
    }
  }
}

async function query(resolver: Resolver, host: string): Promise<string[]> {
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  if (addresses.length > 0) return addresses
  for (const answer of answers)
    if (answer.status === 'rejected' && !ABSENT.has(answer.reason.code)) throw answer.reason
  return bySystem(host)
}

let systemLookups = 0

/** For a name in the hosts file, or one that only the system's own ways find. */
async function bySystem(host: string): Promise<string[]> {
  if (systemLookups >= SYSTEM_LOOKUPS_MAX) throw new Error('too many names unknown to the DNS at once')
  systemLookups += 1
  try {
    return (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address)
  } finally {
    systemLookups -= 1
  }
}
