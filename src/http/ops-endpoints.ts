// /healthz, /readyz and /metrics, for those who run the service. Not part of the partner API: to anybody else these
// paths do not exist.

import { createHash, timingSafeEqual } from 'node:crypto'
import type { H3Event } from 'h3'
import ipaddr from 'ipaddr.js'
import type { Instant } from '../core/instant.ts'
import type { MonitoringStore } from '../store/monitoring.ts'
import type { Metrics } from './metrics.ts'
import { createReadiness, shared } from './readiness.ts'

export const OPS_PATHS = ['/healthz', '/readyz', '/metrics'] as const
export type OpsPath = (typeof OPS_PATHS)[number]
export type OpsAnswer = { status: number; type: string; text: string }

export type OpsOptions = {
  clock: () => Instant
  metrics: Metrics
  exposition: string
  /** Null admits loopback peers, and nobody else. */
  token: string | null
}

export type Ops = Pick<Metrics, 'noteRequest'> & {
  admits: (event: H3Event) => boolean
  answer: (path: OpsPath) => Promise<OpsAnswer>
  /** Tells that the database is open. */
  opened: (store: MonitoringStore) => Promise<void>
}

export function createOps({ clock, metrics, exposition, token }: OpsOptions): Ops {
  const digest = token === null ? null : sha256(token)
  const reasonsAgainst = createReadiness(clock)
  let store: MonitoringStore | null = null
  const scrape = shared(async () => metrics.read(store, clock()))

  return {
    noteRequest: metrics.noteRequest,
    async opened(open) {
      store = open
      // Should it fail, the first scrape begins.
      await metrics.begin(open).catch(() => {})
    },
    admits: ({ req }) =>
      digest === null ? isFromHere(req) : isBearer(req.headers.get('authorization'), digest),
    async answer(path) {
      switch (path) {
        case '/healthz':
          return json(200, { status: 'up' })
        case '/readyz': {
          const reasons = await reasonsAgainst(store)
          return reasons.length === 0 ? json(200, { ready: true }) : json(503, { ready: false, reasons })
        }
        case '/metrics':
          return { status: 200, type: exposition, text: await scrape() }
        default:
          return path satisfies never
      }
    },
  }
}

const json = (status: number, body: unknown): OpsAnswer => ({
  status,
  type: 'application/json',
  text: JSON.stringify(body),
})

/** Whether the peer is this machine itself. Behind a proxy every peer seems to be, so one that says so is not. */
function isFromHere(request: H3Event['req']): boolean {
  if (PROXY_HEADERS.some((name) => request.headers.has(name))) return false
  const peer = request.runtime?.node?.req.socket.remoteAddress
  return peer !== undefined && ipaddr.isValid(peer) && ipaddr.process(peer).range() === 'loopback'
}

const PROXY_HEADERS = [
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'true-client-ip',
  'cf-connecting-ip',
  'fly-client-ip',
  'via',
]

/** Compares digests, which are of one length, in constant time. */
function isBearer(header: string | null, digest: Uint8Array): boolean {
  const given = /^Bearer (\S+)$/.exec(header ?? '')?.[1]
  return given !== undefined && timingSafeEqual(sha256(given), digest)
}

const sha256 = (text: string): Uint8Array => createHash('sha256').update(text).digest()
