// The base of the webhook suites: the service, receivers with a test authority, and a way to run a pass and wake.

import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { connect, createServer as createTcpServer } from 'node:net'
import type { TestContext } from 'node:test'
import type { ExecutionId } from '../../src/core/execution.ts'
import type { Environment, Tenant } from '../../src/core/partner.ts'
import { formatInstant } from '../../src/core/time.ts'
import type { Webhook } from '../../src/core/webhook.ts'
import { createGuard, parseCidr, type Resolve } from '../../src/webhook/address-guard.ts'
import { createSend } from '../../src/webhook/send.ts'
import { type SendWakeUp, wakePartners } from '../../src/webhook/wake-partners.ts'
import { link, PRICE, plan, succeed, tenantOf, WEBHOOKS } from '../http/steps.ts'
import { type Authority, type Certificate, makeAuthority } from '../support/certificate.ts'
import { type Listening, listen, type Service, startService, T0 } from '../support/service.ts'

export { LOW_PRICE, PRICE, WEBHOOKS } from '../http/steps.ts'

export const LOOPBACK = '127.0.0.0/8'

type DeliverParts = { allow?: string[]; resolve?: Resolve; caFile?: string | null }

/** A deliverer that may reach loopback, unless told otherwise. */
export function deliverer({ allow = [LOOPBACK], resolve, caFile = null }: DeliverParts) {
  const guard = createGuard({ allow: allow.map(parseCidr), ...(resolve && { resolve }) })
  return createSend({ guard, headerPrefix: 'X-Service', caFile })
}

export type Warning = { message: string; fields: object }

export type Stage = Service & {
  authority: Authority
  warnings: Warning[]
  /** Registers over HTTP and answers the secret. */
  register: (port: number, path?: string, key?: string) => Promise<string>
  /** Links a user and gives it a plan whose first unit fires at the next pass. */
  addPlan: (id: string, key?: string) => Promise<void>
  /** Runs a pass, and sends the wake-ups it wrote. */
  pass: (priceUsd?: string, send?: SendWakeUp) => Promise<{ sent: number; failed: number }>
  webhook: (slug?: string, environment?: Environment) => Promise<Webhook>
  tenant: (slug?: string, environment?: Environment) => Promise<Tenant>
}

export async function startStage(t: Pick<TestContext, 'after'>): Promise<Stage> {
  const authority = makeAuthority(t)
  const trusting = deliverer({ caFile: authority.caFile })
  const service = await startService(t, { more: () => ({ send: trusting }) })
  const warnings: Warning[] = []
  const tenant = (slug = 'acme', environment: Environment = 'test') => tenantOf(service, environment, slug)
  return {
    ...service,
    authority,
    warnings,
    tenant,
    register: async (port, path = '/hook', key = service.key) => {
      const url = `https://127.0.0.1:${port}${path}`
      return (await succeed(service, 'POST', WEBHOOKS, { url }, { key })).secret
    },
    addPlan: async (id, key = service.key) => {
      await link(service, id, { key })
      await plan(service, id, id, {}, { key })
    },
    pass: async (priceUsd = PRICE, send = trusting) => {
      const report = await service.tick(priceUsd)
      const warn = (message: string, fields: object): void => void warnings.push({ message, fields })
      return wakePartners(report, { store: service.store, send: async () => send, warn })
    },
    webhook: async (slug, environment) => {
      const found = await service.store.findWebhook(await tenant(slug, environment))
      assert.ok(found)
      return found
    },
  }
}

export const EARLIEST = `exec_${'1'.repeat(32)}` as ExecutionId
export const SECRET = 'sse_whsec_dGhlIHNlY3JldCBvZiBhIHRlc3Q'

/** A delivery that needs no database: for tests of the wire. */
export const deliveryTo = (url: string) => ({
  tenant: { tenantId: 1, partnerSlug: 'acme', environment: 'test' } as Tenant,
  count: 3,
  earliest: EARLIEST,
  webhook: {
    url,
    secret: SECRET,
    status: 'active',
    createdAt: T0,
    updatedAt: T0,
    lastDeliveredAt: null,
    lastStatusCode: null,
    consecutiveFailures: 0,
    lastFailure: null,
  } satisfies Webhook,
})

export const AT_T0 = formatInstant(T0)

// Receivers of wake-ups: real TLS on loopback, with certificates and a name server of the test’s own.

type Ending = Pick<TestContext, 'after'>

export const HOST_NAME = 'hook.example'

export type Received = { method: string; path: string; headers: IncomingMessage['headers']; raw: Buffer }
export type Answering = (response: ServerResponse, request: IncomingMessage, received: Received) => void

export type Receiver = {
  port: number
  received: Received[]
  /** Sockets opened to it, with or without requests. */
  connections: () => number
  /** Resolves when so many requests have come in. */
  count: (requests: number) => Promise<void>
}

/** Answers 204 unless told otherwise. `answer` can send a negative answer, hang or stream. */
export async function startReceiver(
  t: Ending,
  certificate: Certificate,
  answer: Answering = (response) => void response.writeHead(204).end(),
): Promise<Receiver> {
  const received: Received[] = []
  const waiting: { requests: number; resolve: () => void }[] = []
  const server = createServer(certificate, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { method = '', url: path = '', headers } = request
    const one = { method, path, headers, raw: Buffer.concat(chunks) }
    received.push(one)
    for (const { requests, resolve } of waiting) if (received.length >= requests) resolve()
    answer(response, request, one)
  })
  const { port, connections } = await listen(t, server)
  return {
    port,
    received,
    connections,
    count: (requests) =>
      new Promise((resolve) => {
        waiting.push({ requests, resolve })
        if (received.length >= requests) resolve()
      }),
  }
}

/** A plain TCP listener that accepts a connection and sends nothing: the peer of a TLS handshake that never ends. */
export const startMute = (t: Ending, host = '127.0.0.1'): Promise<Listening> =>
  listen(t, createTcpServer(), host)

/** Connects once and disconnects: shows that a listener counts. */
export async function knock(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.destroy()
  await once(socket, 'close')
}

// A name server on loopback, for the names that only a test knows.

export const TYPE_A = 1
export const TYPE_AAAA = 28

type Zone = Record<string, { [TYPE_A]?: number[][]; [TYPE_AAAA]?: number[][]; code?: number }>

/** Answers from the zone, in the form of RFC 1035, section 4; a name that is not in it is never answered. */
export async function startNameServer(
  t: Pick<TestContext, 'after'>,
  zone: Zone,
): Promise<{ address: string; asked: string[] }> {
  const asked: string[] = []
  const socket = createSocket('udp4').on('message', (question, from) => {
    const { name, end } = nameAt(question, 12)
    const type = question.readUInt16BE(end)
    asked.push(name)
    const known = zone[name.toLowerCase()]
    if (!known) return
    const records = (type === TYPE_A ? known[TYPE_A] : known[TYPE_AAAA]) ?? []
    const header = Buffer.alloc(12)
    question.copy(header, 0, 0, 2)
    header.writeUInt16BE(0x8580 | (known.code ?? 0), 2)
    header.writeUInt16BE(1, 4)
    header.writeUInt16BE(records.length, 6)
    const answers = records.map((data) =>
      Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length, ...data]),
    )
    socket.send(Buffer.concat([header, question.subarray(12, end + 4), ...answers]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.after(() => void socket.close())
  return { address: `127.0.0.1:${socket.address().port}`, asked }
}

function nameAt(message: Buffer, start: number): { name: string; end: number } {
  const labels: string[] = []
  let at = start
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), end: at + 1 }
}
