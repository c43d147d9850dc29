// Who may see the paths of operations. No address is trusted, and no header except the token, because behind a proxy on
// the same machine every caller looks local. A listener that only this machine can reach is trusted.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { H3Event } from 'h3'
import ipaddr from 'ipaddr.js'
import { HOUR_MS, type Instant, MINUTE_MS, SECOND_MS } from '../../core/time.ts'
import { networkOf } from '../request.ts'

/** The listener that a call came through: that of the partner API, or the one of operations. */
export type Door = 'api' | 'ops'
/** `too many`: the token is wrong, and so were too many others from the same network in the same minute. */
type SignIn = { outcome: 'wrong' | 'too many' } | { outcome: 'signed in'; cookie: string }

export type Access = {
  /** Whether the caller may see everything. */
  admits: (event: H3Event, door: Door) => boolean
  /** Like `admits`, but also by the cookie: only for the page, because a browser sends its cookies with every call. */
  admitsBrowser: (event: H3Event, door: Door) => boolean
  /** Whether there is a token to sign in with. */
  hasToken: boolean
  signIn: (event: H3Event, door: Door, given: string) => SignIn
}
type AccessOptions = {
  clock: () => Instant
  /** Without a token, nobody is admitted at the API's listener, and everybody on this machine at the other. */
  token: string | null
  /** Called when a network sends too many wrong tokens, at most once a minute. */
  onManyWrong?: (() => void) | undefined
}

/** How the API's own keys begin. No ops token may begin like that. */
export const KEY_START = 'sse_'
export const COOKIE = 'tranche_ops'
const SIGNED_IN_MS = 12 * HOUR_MS

export function createAccess({ clock, token, onManyWrong }: AccessOptions): Access {
  const digest = token === null ? null : sha256(token)
  const wrongTokens = createWrongTokens(clock, onManyWrong)
  const seal = (expires: string): string =>
    createHmac('sha256', token ?? '')
      .update(`${COOKIE} ${expires}`)
      .digest('base64url')

  /**
   * The token is compared before anything is counted. Otherwise strangers could lock out the right token: behind a
   * proxy on this machine they share a count with the monitoring.
   */
  function judge(event: H3Event, door: Door, given: string): 'right' | 'wrong' | 'too many' {
    // A partner's client that sends its key with every call is not guessing.
    if (given.startsWith(KEY_START)) return 'wrong'
    if (digest !== null && timingSafeEqual(sha256(given), digest)) return 'right'
    const whose = `${door} ${networkOf(socketOf(event)?.remoteAddress) ?? 'here'}`
    return wrongTokens.areTooMany(whose) ? 'too many' : 'wrong'
  }

  function admits(event: H3Event, door: Door): boolean {
    if (digest === null) return door === 'ops'
    const given = /^Bearer (\S+)$/.exec(event.req.headers.get('authorization') ?? '')?.[1]
    return given !== undefined && judge(event, door, given) === 'right'
  }

  function hasCookie({ req }: H3Event): boolean {
    const cookies = (req.headers.get('cookie') ?? '').split(/; */)
    return cookies.some((cookie) => {
      const [, expires = '', sealed = ''] = /^tranche_ops=(\d{1,15})\.([\w-]+)$/.exec(cookie) ?? []
      return Number(expires) > clock() && timingSafeEqual(sha256(sealed), sha256(seal(expires)))
    })
  }

  return {
    hasToken: digest !== null,
    admits,
    admitsBrowser: (event, door) => (digest !== null && hasCookie(event)) || admits(event, door),
    signIn(event, door, given) {
      const judged = judge(event, door, given)
      if (judged !== 'right') return { outcome: judged }
      const expires = String(clock() + SIGNED_IN_MS)
      return { outcome: 'signed in', cookie: cookieOf(event, `${expires}.${seal(expires)}`, SIGNED_IN_MS) }
    },
  }
}

/** A cookie that the browser sends only for the page, and never with a request that another site starts. */
export function cookieOf(event: H3Event, value: string, lastsMs: number): string {
  const parts = [
    `${COOKIE}=${value}`,
    'Path=/ops',
    `Max-Age=${lastsMs / SECOND_MS}`,
    'HttpOnly',
    'SameSite=Strict',
  ]
  // TLS may end at a proxy, so this goes by the scheme that the browser itself names.
  const isTls = event.url.protocol === 'https:' || event.req.headers.get('origin')?.startsWith('https://')
  return [...parts, ...(isTls ? ['Secure'] : [])].join('; ')
}

/** Whether a form was sent by our own page, or by something that is not a browser. */
export function isFromOwnPage({ req }: H3Event): boolean {
  const site = req.headers.get('sec-fetch-site')
  if (site !== null) return site === 'same-origin'
  const origin = req.headers.get('origin')
  return origin === null || URL.parse(origin)?.host === req.headers.get('host')
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

/** All digests have the same length, so comparing them always takes the same time. */
const sha256 = (text: string): Uint8Array => createHash('sha256').update(text).digest()

// How many wrong tokens from a network are too many, and when to warn.

/** Wrong tokens in a minute from one network; behind a proxy on this machine, from all of them together. */
export const WRONG_TOKENS_MAX = 20
const NETWORKS_MAX = 10_000

/**
 * Counts wrong tokens by their origin, minute by minute. `onMany` is called at most once a minute, however many
 * networks guess: its line must not fill a disk.
 */
function createWrongTokens(clock: () => Instant, onMany: (() => void) | undefined) {
  const wrong = new Map<string, number>()
  let begunAt = clock()
  let isTold = false
  const renew = (): void => {
    if (Math.abs(clock() - begunAt) < MINUTE_MS) return
    wrong.clear()
    isTold = false
    begunAt = clock()
  }
  // Beyond a number of networks, all others share one count.
  const known = (whose: string): string => (wrong.has(whose) || wrong.size < NETWORKS_MAX ? whose : 'others')
  return {
    /** Counts one more, and says whether there have been too many. */
    areTooMany(whose: string): boolean {
      renew()
      const name = known(whose)
      const count = (wrong.get(name) ?? 0) + 1
      wrong.set(name, count)
      if (count <= WRONG_TOKENS_MAX) return false
      if (!isTold) onMany?.()
      isTold = true
      return true
    },
  }
}

// The paths of operations, and how a call to one is answered.

/** The page and the downloads beside it. */
export const PAGE_PATHS = ['/ops', '/ops/export', '/ops/invoice'] as const
export type PagePath = (typeof PAGE_PATHS)[number]

export const OPS_PATHS = ['/healthz', '/readyz', '/metrics', ...PAGE_PATHS] as const
export type OpsPath = (typeof OPS_PATHS)[number]

export type OpsAnswer = {
  status: number
  headers: Record<string, string>
  body: string | ReadableStream<Uint8Array>
}
