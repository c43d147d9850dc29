// For those who run the service: whether it is up, whether it is ready, and its numbers. Not part of the partner API:
// to anybody but them these paths do not exist.

import { createHash, timingSafeEqual } from 'node:crypto'
import type { H3Event } from 'h3'
import ipaddr from 'ipaddr.js'
import { type Instant, MINUTE_MS } from '../core/instant.ts'
import type { MonitoringStore } from '../store/monitoring.ts'
import type { Metrics } from './metrics.ts'

export const OPS_PATHS = ['/healthz', '/readyz', '/metrics'] as const
export type OpsPath = (typeof OPS_PATHS)[number]
export type OpsAnswer = { status: number; type: string; text: string }

export type OpsOptions = {
  clock: () => Instant
  metrics: Metrics
  exposition: string
  /** Null admits loopback peers, and nobody else. */
  token: string | null
  /** How often passes run inside this process, null when cron runs them. */
  tickEveryMs: number | null
}

export type Ops = Pick<Metrics, 'noteRequest'> & {
  admits: (event: H3Event) => boolean
  answer: (path: OpsPath) => Promise<OpsAnswer>
  /** Tells that the database is open. */
  opened: (store: MonitoringStore) => Promise<void>
}

/** A pass a minute is the rule; ten that are missing are no accident. */
const TICK_FRESH_MS = 10 * MINUTE_MS
/** How many of its own intervals a slower scheduler may miss. */
const TICKS_MISSED_MAX = 3
/** How long a probe waits for another process's lock. */
const PROBE_TIMEOUT_MS = 2_000

export function createOps({ clock, metrics, exposition, token, tickEveryMs }: OpsOptions): Ops {
  const digest = token === null ? null : sha256(token)
  const freshMs = Math.max(TICK_FRESH_MS, TICKS_MISSED_MAX * (tickEveryMs ?? 0))
  let store: MonitoringStore | null = null
  const probe = shared(async (open: MonitoringStore) => open.probeWrite())
  const scrape = shared(async () => metrics.read(store, clock()))

  async function reasonsAgainst(): Promise<string[]> {
    if (!store) return ['The database is not open yet.']
    const reasons = [await failureOf(within(PROBE_TIMEOUT_MS, probe(store)))]
    const stale = await staleness(store).catch(
      (error: Error) => `The database cannot be read: ${error.message}`,
    )
    return [...reasons, stale].filter((reason) => reason !== null)
  }

  async function staleness(open: MonitoringStore): Promise<string | null> {
    const { lastPassAt, plansWaiting } = await open.readPassHealth()
    if (!plansWaiting) return null
    if (lastPassAt === null) return 'Plans are active and no pass has ever run.'
    const ageMs = clock() - lastPassAt
    if (ageMs <= freshMs) return null
    return `Plans are active and the last finished pass began ${Math.round(ageMs / 1000)} s ago.`
  }

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
          const reasons = await reasonsAgainst()
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

async function failureOf(probe: Promise<unknown>): Promise<string | null> {
  try {
    await probe
    return null
  } catch (error) {
    return `The database cannot be written: ${(error as Error).message}`
  }
}

/** Rejects when the work takes longer; the work itself goes on. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`it is locked for more than ${ms / 1000} s`)), ms)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** One run at a time: whoever asks while it lasts gets its outcome, so that askers in a hurry pile up no work. */
function shared<A extends unknown[], T>(work: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
  let running: Promise<T> | null = null
  return (...args) => {
    running ??= work(...args).finally(() => {
      running = null
    })
    return running
  }
}
