// What most tests stand on: the real service, on a real file, over real HTTP, with a clock the test sets.

import type { TestContext } from 'node:test'
import { price } from '../../src/core/money.ts'
import type { Environment } from '../../src/core/partner.ts'
import type { Instant } from '../../src/core/time.ts'
import { plus } from '../../src/core/time.ts'
import { type PassReport, runPass } from '../../src/engine/pass.ts'
import { type AppOptions, createApp } from '../../src/http/app.ts'
import { listenOn } from '../../src/http/listen.ts'
import { createOpsApp } from '../../src/http/ops/endpoints.ts'
import { issueKey as makeKey } from '../../src/keys.ts'
import { type Log, silentLog } from '../../src/log.ts'
import { type Machine, machineAt } from '../../src/machine.ts'
import type { Store } from '../../src/store/store.ts'
import { createGuard, parseCidr } from '../../src/webhook/address-guard.ts'
import { addressIn, openNew } from './database.ts'
import { temporaryFolder } from './temporary-folder.ts'

export const T0 = Date.UTC(2026, 0, 5) as Instant

// biome-ignore lint/suspicious/noExplicitAny: an answer's JSON is what the test is about to check
export type Answer = { status: number; headers: Headers; body: any }
export type CallOptions = { key?: string | null; headers?: Record<string, string> }

export type Service = {
  store: Store
  /** What --db names. */
  file: string
  url: string
  /** The listener of operations; empty for a service without. */
  opsUrl: string
  /** A key of the partner "acme", for the test environment unless told otherwise: the default of every call. */
  key: string
  now: () => Instant
  setClock: (now: Instant) => void
  advance: (ms: number) => void
  /** `body` is sent as JSON, a string or bytes as they are. */
  call: (method: string, path: string, body?: unknown, options?: CallOptions) => Promise<Answer>
  tick: (priceUsd?: string) => Promise<PassReport>
  issueKey: (slug: string, environment: Environment) => Promise<string>
}

export type ServiceOptions = {
  rateLimit?: number | null
  /** Of the default key. */
  environment?: Environment
  log?: Log
  /** What HTTP sees of the store: the real one with a method that fails, say. */
  wrap?: (store: Store) => Store
  /** Anything else that the app is to have. */
  more?: (store: Store, machine: Machine) => Partial<AppOptions>
}

export const AUDIT = { osUser: 'test', action: 'test', subject: 'test', detail: {} }

/** Starts the service with a partner and a key; stops it when the test ends. */
export async function startService(
  t: Pick<TestContext, 'after'>,
  {
    rateLimit = null,
    environment = 'test',
    log = silentLog,
    wrap = (store) => store,
    more,
  }: ServiceOptions = {},
): Promise<Service> {
  const { machine, setClock } = machineAt(T0)
  const folder = temporaryFolder(t)
  const store = await openNew(folder, machine.clock)
  const guard = createGuard({ allow: [parseCidr('127.0.0.0/8')] })
  const options: AppOptions = {
    store: wrap(store),
    machine,
    guard,
    log,
    rateLimit,
    ...more?.(store, machine),
  }
  const where = { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid }
  const listener = await listenOn(createApp(options), where)
  const { ops } = options
  const own = ops ? await listenOn(createOpsApp({ ops, log, uuid: machine.uuid }), where) : null
  t.after(async () => {
    await Promise.all([listener.close(), own?.close()])
    await store.close()
  })

  const issueKey = async (slug: string, environment: Environment): Promise<string> => {
    if (!(await store.findPartner(slug))) await store.addPartner({ partnerSlug: slug, name: slug }, AUDIT)
    const tenant = await store.findTenant(slug, environment)
    if (!tenant) throw new Error(`no tenant ${slug} ${environment}`)
    const { record, secret } = makeKey({ tenant, label: null, lifetimeMs: null }, machine)
    await store.addKey(record, AUDIT)
    return secret
  }
  const key = await issueKey('acme', environment)

  return {
    store,
    file: addressIn(folder),
    url: listener.url,
    opsUrl: own?.url ?? '',
    key,
    now: machine.clock,
    setClock,
    advance: (ms) => setClock(plus(machine.clock(), ms)),
    issueKey,

    async call(method, path, body, options = {}) {
      const bearer = options.key === undefined ? key : options.key
      const raw = typeof body === 'string' || body instanceof Uint8Array
      const response = await fetch(listener.url + path, {
        method,
        headers: { ...(bearer !== null && { authorization: `Bearer ${bearer}` }), ...options.headers },
        ...(body !== undefined && { body: raw ? (body as string) : JSON.stringify(body) }),
      })
      const text = await response.text()
      const answer = {
        status: response.status,
        headers: response.headers,
        body: text === '' ? null : JSON.parse(text),
      }
      // Whatever a test is about, its answers are what the API description says. Loaded at the first call, because
      // many tests make none.
      const { assertAccepted, assertDescribed } = await import('../openapi/described.ts')
      assertDescribed(method, path, answer)
      if (answer.status === 200 && body !== undefined && !raw) assertAccepted(method, path, body)
      return answer
    },

    async tick(priceUsd) {
      const seen = priceUsd === undefined ? null : { price: price(priceUsd), source: 'test' }
      const observe = async () => ({ price: seen, told: 'none' as const })
      const report = await runPass({ store, machine, observe })
      if (!report) throw new Error('another tick is running')
      return report
    },
  }
}

export const USER = {
  partner_user_id: 'u1',
  consent_accepted: true,
  consent_version: 'v1',
  consent_timestamp: '2026-01-01T00:00:00Z',
}
export const PLAN = { partner_user_id: 'u1', partner_plan_id: 'p1', amount_usd: '60.00', frequency: 'daily' }

/** A confirmation that fills an execution whole, or the part of it that `usd` says. */
export const fill = (order: string, usd: string, status: 'filled' | 'partial' = 'filled') => ({
  partner_order_id: order,
  status,
  usd_amount: usd,
  btc_amount: '0.00100000',
  execution_price: '60000.00',
})
