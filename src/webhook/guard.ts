// The guard against turning a webhook on the host's own network: a name is resolved, and refused if any address it
// has is not an ordinary public one.

import { lookup } from 'node:dns/promises'
import ipaddr from 'ipaddr.js'
import { Problem } from '../core/problem.ts'
import type { UrlGuard } from '../http/route.ts'

export type Resolve = (host: string) => Promise<string[]>
export type Cidr = [ipaddr.IPv4 | ipaddr.IPv6, number]

const RESOLVE_TIMEOUT_MS = 5_000
/** Public by the registries, yet answered by the cloud's own host: Azure's wire server. */
const METADATA_ADDRESSES = ['168.63.129.16']
const GLOBAL_UNICAST_V6: Cidr = [ipaddr.IPv6.parse('2000::'), 3]

export type GuardOptions = { allow: Cidr[]; resolve?: Resolve }

/** Throws webhook_refused when the URL's host does not resolve, or resolves to an address that is not allowed. */
export function createGuard({ allow, resolve = resolveBySystem }: GuardOptions): UrlGuard {
  return async (url) => {
    const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
    const addresses = await addressesOf(host, resolve)
    for (const address of addresses) {
      const reason = refusal(address, allow)
      if (reason)
        throw new Problem('webhook_refused', `Webhook URL is refused: ${host} is at ${address} (${reason}).`)
    }
  }
}

/** Why an address may not be connected to, null when it may. */
export function refusal(text: string, allow: Cidr[]): string | null {
  const address = ipaddr.process(text)
  if (allow.some(([range, bits]) => address.kind() === range.kind() && address.match(range, bits)))
    return null
  if (METADATA_ADDRESSES.includes(address.toString())) return 'cloud metadata'
  const range = ipaddr.parse(text).range()
  if (range !== 'unicast') return range
  return address.kind() === 'ipv6' && !address.match(...GLOBAL_UNICAST_V6) ? 'not global unicast' : null
}

/** Reads a range as written on the command line. Throws a usage Problem on anything else. */
export function parseCidr(text: string): Cidr {
  if (ipaddr.isValidCIDR(text)) return ipaddr.parseCIDR(text)
  throw new Problem('usage', `${JSON.stringify(text)} is no range of addresses: give one such as 10.0.0.0/8.`)
}

async function addressesOf(host: string, resolve: Resolve): Promise<string[]> {
  if (ipaddr.isValid(host)) return [host]
  const addresses = await resolve(host).catch((error: Error) => {
    throw new Problem(
      'webhook_refused',
      `Webhook URL is refused: ${host} does not resolve (${error.message}).`,
    )
  })
  if (addresses.length === 0)
    throw new Problem('webhook_refused', `Webhook URL is refused: ${host} has no address.`)
  return addresses
}

async function resolveBySystem(host: string): Promise<string[]> {
  const late = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new Error('no answer in time')), RESOLVE_TIMEOUT_MS).unref()
  })
  const found = await Promise.race([lookup(host, { all: true, verbatim: true }), late])
  return found.map(({ address }) => address)
}
