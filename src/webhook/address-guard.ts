// Keeps webhooks away from the host's own network: a name is resolved, and refused if any of its addresses is not an
// ordinary public one.

import { lookup } from 'node:dns'
import { lookup as lookUpNow, Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'
import { Problem, usage } from '../core/problem.ts'

type Cidr = [ipaddr.IPv4 | ipaddr.IPv6, number]

/** Azure's wire server: a public address by the registries, but answered by the cloud's own host. */
const METADATA_ADDRESSES = ['168.63.129.16']
const GLOBAL_UNICAST_V6: Cidr = [ipaddr.IPv6.parse('2000::'), 3]

type GuardOptions = {
  allow: Cidr[]
  resolve?: Resolve
  /** Whether a refusal names the address, even an internal one: for operators only. */
  namesAddresses?: boolean
}

export type Guard = {
  /** Throws webhook_refused when the URL's host does not resolve, or has an address that is not allowed. */
  checkUrl: (url: string) => Promise<void>
  /** The look-up for a socket: it answers only when every address of the name is allowed. */
  lookup: LookupFunction
  /** The refusal of a host that is itself an address; null when it is allowed, or is a name. */
  refuseLiteral: (hostname: string) => Problem | null
}

/** No guard, for an address that the operator chose for their own machine. */
export const UNGUARDED: Guard = { checkUrl: async () => {}, lookup, refuseLiteral: () => null }

export function createGuard(options: GuardOptions): Guard {
  const { allow, resolve = createResolve(), namesAddresses = false } = options
  const refuse = (host: string, address: string): Problem | null => {
    const reason = refusal(address, allow)
    return reason === null ? null : refused(host, address, { reason, namesAddresses })
  }
  const allowed = async (host: string): Promise<string[]> => {
    const addresses = ipaddr.isValid(host) ? [host] : await resolveName(host, resolve)
    for (const address of addresses) {
      const problem = refuse(host, address)
      if (problem) throw problem
    }
    return addresses
  }
  return {
    checkUrl: async (url) => {
      await allowed(bare(new URL(url).hostname))
    },
    lookup: (host, options, callback) => {
      allowed(host).then(
        (addresses) => {
          const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
          const [first] = found
          if (options.all || !first) callback(null, found)
          else callback(null, first.address, first.family)
        },
        (error) => callback(error, []),
      )
    },
    refuseLiteral: (hostname) => {
      const host = bare(hostname)
      return ipaddr.isValid(host) ? refuse(host, host) : null
    },
  }
}

/** A URL writes an IPv6 address in brackets. */
const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, '')

/** Names the address and the option that allows it; to a partner, who must not learn internal ones, only loopback. */
function refused(
  host: string,
  address: string,
  { reason, namesAddresses }: { reason: string; namesAddresses: boolean },
): Problem {
  const which = host === address ? reason : `${reason}, ${address}`
  const isOpen = (namesAddresses || reason === 'loopback') && ipaddr.isValid(address)
  const why = isOpen
    ? `(${which}); --webhook-allow-cidr ${address}/${ipaddr.process(address).kind() === 'ipv6' ? 128 : 32} allows it`
    : `(${reason})`
  return urlRefused(`${host} is not on the public internet ${why}`)
}

const urlRefused = (why: string): Problem => new Problem('webhook_refused', `Webhook URL is refused: ${why}.`)

/** Why connections to an address are refused; null when they are allowed. */
export function refusal(text: string, allow: Cidr[]): string | null {
  if (!ipaddr.isValid(text)) return 'not an address'
  const address = ipaddr.process(text)
  if (allow.some(([range, bits]) => address.kind() === range.kind() && address.match(range, bits)))
    return null
  if (METADATA_ADDRESSES.includes(address.toString())) return 'cloud metadata'
  const range = ipaddr.parse(text).range()
  if (range !== 'unicast') return range
  return address.kind() === 'ipv6' && !address.match(...GLOBAL_UNICAST_V6) ? 'not global unicast' : null
}

export function parseCidr(text: string): Cidr {
  if (ipaddr.isValidCIDR(text)) return ipaddr.parseCIDR(text)
  throw usage(`${JSON.stringify(text)} is not a range of addresses: give one such as 10.0.0.0/8.`)
}

async function resolveName(host: string, resolve: Resolve): Promise<string[]> {
  const addresses = await resolve(host).catch((error: Error) => {
    throw urlRefused(`${host} does not resolve (${error.message})`)
  })
  if (addresses.length === 0) throw urlRefused(`${host} has no address`)
  return addresses
}

// How names are resolved. Partners choose the names, and may run a name server that never answers, so queries use
// sockets of our own. The system's look-up would hold one of the four threads that all look-ups share.

export type Resolve = (host: string) => Promise<string[]>

export const RESOLVE_TIMEOUT_MS = 5_000
/** Two tries, the second twice as long; both fit within the limit above. */
const QUERY_TIMEOUT_MS = 1_500
const QUERY_TRIES = 2
/** How many of the shared look-up threads may wait for names outside the DNS. */
const SYSTEM_LOOKUPS_MAX = 2
/** The DNS has no such name, or there is no DNS here. */
const ABSENT = new Set(['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'])

/** `servers` are name servers used instead of the system's. */
export function createResolve(servers: readonly string[] | null = null): Resolve {
  return async (host) => {
    // RFC 6761, section 6.3: this name means loopback, and no name server is queried.
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

/** Looks up a name in the hosts file, or one that only the system's look-up finds. */
async function bySystem(host: string): Promise<string[]> {
  if (systemLookups >= SYSTEM_LOOKUPS_MAX) throw new Error('too many names unknown to the DNS at once')
  systemLookups += 1
  try {
    return (await lookUpNow(host, { all: true, verbatim: true })).map(({ address }) => address)
  } finally {
    systemLookups -= 1
  }
}
