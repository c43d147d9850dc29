// A server that reads each request, answers a small JSON object and does nothing else: node:http alone, or with h3.
// Prints its address.

import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { H3, readBody, toNodeHandler } from 'h3'
import { serveJobs } from '../helper.ts'

const ANSWER = { partner_slug: 'acme', partner_name: 'Acme', environment: 'live' }

const bare: RequestListener = (request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (text) => (body += text))
  request.on('end', () => {
    if (body !== '') JSON.parse(body)
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(ANSWER))
  })
}

function routed(): RequestListener {
  const app = new H3()
  app.get('/**', () => ANSWER)
  app.post('/**', async (event) => {
    await readBody(event)
    return ANSWER
  })
  return toNodeHandler(app) as RequestListener
}

const server = createServer(process.argv[2] === 'h3' ? routed() : bare).listen(0, '127.0.0.1')
server.on('listening', () => {
  const { port } = server.address() as AddressInfo
  serveJobs((): string => `http://127.0.0.1:${port}`)
})
