// Who may see the paths of operations. No address is trusted, and no header except the token, because behind a proxy on
// the same machine every caller looks local. A listener that only this machine can reach is trusted.

import { hash, timingSafeEqual } from 'node:crypto'
import type { H3Event } from 'h3'
import ipaddr from 'ipaddr.js'
import { type Instant, MINUTE_MS } from '../../core/time.ts'
import { networkOf } from '../request.ts'

/** The listener that a call came through: the partner API's, or that of operations. */
export type Door = 'api' | 'ops'

type AccessOptions = {
  clock: () => Instant
  /** Without a token, nobody is admitted at the API's listener, and every user of this machine at the other. */
  token: string | null
  /** Called when a network sends too many wrong tokens, at most once a minute. */
  onManyWrong?: (() => void) | undefined
}

/** The beginning of the API's own keys. No ops token may begin like that. */
export const KEY_START = 'sse_'

/** A program sends the token as Bearer, a browser as the password of HTTP Basic. */
export function createAccess({ clock, token, onManyWrong }: AccessOptions) {
  const expected = token === null ? null : sha256(token)
  const noteWrong = createWrongTokens(clock, onManyWrong)

  /**
   * The token is compared before anything is counted. Otherwise strangers could lock out the right token: behind a
   * proxy on this machine they share a count with the monitoring.
   */
  function admits(event: H3Event, door: Door): boolean {
    if (expected === null) return door === 'ops'
    const sent = tokenIn(event.req.headers.get('authorization') ?? '')
    // A partner's client that sends its key with every call is not guessing.
    if (sent === null || sent.startsWith(KEY_START)) return false
    if (timingSafeEqual(sha256(sent), expected)) return true
    noteWrong(`${door} ${networkOf(socketOf(event)?.remoteAddress) ?? 'here'}`)
    return false
  }

  return { hasToken: token !== null, admits }
}

function tokenIn(authorization: string): string | null {
  const [, scheme, sent = ''] = /^(Bearer|Basic) (\S+)$/.exec(authorization) ?? []
  if (scheme === 'Bearer') return sent
  if (scheme === undefined) return null
  // Any user name will do. It has no colon, and a token may have some.
  return /^[^:]*:(.+)$/.exec(Buffer.from(sent, 'base64').toString())?.[1] ?? null
}

/**
 * Whether a call names this machine by its own address. If another site makes its name lead to 127.0.0.1, a browser on
 * this machine takes this listener for the same site; only the name shows the difference.
 */
export function namesThisMachine({ req }: H3Event): boolean {
  const host = (req.headers.get('host') ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
  return host === 'localhost' || isLoopbackAddress(host)
}

export const isLoopbackAddress = (host: string): boolean =>
  ipaddr.isValid(host) && ipaddr.process(host).range() === 'loopback'

const socketOf = (event: H3Event) => event.req.runtime?.node?.req.socket

/** All hashes have the same length, so comparing them always takes the same time. */
const sha256 = (text: string): Uint8Array => hash('sha256', text, 'buffer')

/** Wrong tokens in a minute from one network; behind a proxy on this machine, from all networks together. */
export const WRONG_TOKENS_MAX = 20
const NETWORKS_MAX = 10_000

/** Counts wrong tokens by their origin, minute by minute. `onMany` is called at most once a minute. */
function createWrongTokens(clock: () => Instant, onMany: (() => void) | undefined): (whose: string) => void {
  const wrong = new Map<string, number>()
  let begunAt = clock()
  let isTold = false
  const renew = (): void => {
    if (Math.abs(clock() - begunAt) < MINUTE_MS) return
    wrong.clear()
    isTold = false
    begunAt = clock()
  }
  return (whose) => {
    renew()
    // Beyond a number of networks, all others share one count.
    const name = wrong.has(whose) || wrong.size < NETWORKS_MAX ? whose : 'others'
    const count = (wrong.get(name) ?? 0) + 1
    wrong.set(name, count)
    if (count <= WRONG_TOKENS_MAX || isTold) return
    isTold = true
    onMany?.()
  }
}

export const PAGE_PATHS = ['/ops', '/ops/export'] as const

export const OPS_PATHS = ['/healthz', '/readyz', '/metrics', ...PAGE_PATHS] as const
export type OpsPath = (typeof OPS_PATHS)[number]

export type OpsAnswer = {
  status: number
  headers: Record<string, string>
  body: string | ReadableStream<Uint8Array>
}
