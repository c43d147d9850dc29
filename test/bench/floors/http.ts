// A server that answers and does nothing else: node:http alone, or with h3; or h3 with what every call of ours has to
// have, done in the plainest way. Tells its address.

import { hash, randomUUID } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { H3, type H3Event, readBody, toNodeHandler } from 'h3'
import { pino } from 'pino'
import { Counter, Histogram } from 'prom-client'
import { z } from 'zod'
import { serveJobs } from '../helper.ts'

const ANSWER = { partner_slug: 'acme', partner_name: 'Acme', environment: 'live' }

/** Reads what is sent, and answers a small JSON object. */
const bare: RequestListener = (request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (text: string) => {
    body += text
  })
  request.on('end', () => {
    if (body !== '') JSON.parse(body)
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(ANSWER))
  })
}

const routed = (): RequestListener => {
  const app = new H3()
  app.get('/**', () => ANSWER)
  app.post('/**', async (event) => {
    await readBody(event)
    return ANSWER
  })
  return toNodeHandler(app) as RequestListener
}

/**
 * The duties of a call: a key that is looked up by its hash, an id, a body whose shape is checked, a count and a
 * duration, a line in the log. `log` is the name of its file, which is written in large pieces.
 */
function dutiful(log: string): RequestListener {
  const lines = pino({ base: null }, pino.destination({ dest: log, sync: false, minLength: 1 << 13 }))
  const tenants = new Map<string, string>()
  const calls = new Counter({ name: 'calls', help: 'calls', labelNames: ['route', 'status'] })
  const seconds = new Histogram({ name: 'seconds', help: 'seconds', labelNames: ['route'] })
  const shape = z.record(z.string(), z.string())

  async function answer(event: H3Event) {
    const begun = performance.now()
    const requestId = event.req.headers.get('x-request-id') ?? randomUUID()
    const key = hash('sha256', event.req.headers.get('authorization') ?? '')
    if (!tenants.has(key)) tenants.set(key, 'acme')
    const { method } = event.req
    if (method === 'POST') shape.parse(await readBody(event))
    event.res.headers.set('x-request-id', requestId)
    event.res.headers.set('cache-control', 'no-store')
    const ms = performance.now() - begun
    const route = event.url.pathname.length > 20 ? '/b' : '/a'
    calls.inc({ route, status: 200 })
    seconds.observe({ route }, ms / 1000)
    const said = { request_id: requestId, method, route, partner_slug: tenants.get(key), status: 200 }
    lines.info({ ...said, duration_ms: Math.round(ms * 100) / 100 }, 'request')
    return ANSWER
  }

  const app = new H3()
  app.all('/**', answer)
  return toNodeHandler(app) as RequestListener
}

const [kind, log = ''] = process.argv.slice(2)
const listeners: Record<string, () => RequestListener> = {
  'node:http': () => bare,
  h3: routed,
  'h3 with duties': () => dutiful(log),
}
const server = createServer(listeners[kind ?? '']?.()).listen(0, '127.0.0.1')
server.on('listening', () => {
  const { port } = server.address() as AddressInfo
  serveJobs((): string => `http://127.0.0.1:${port}`)
})
