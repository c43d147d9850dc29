// Receives webhooks, behind a proxy that has the certificate. A wake-up says only that it is worth polling now.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const BODY_MAX = 65_536

/** @type {(raw: Buffer, header: string, secret: string) => boolean} */
function isSigned(raw, header, secret) {
  const expected = Buffer.from(`sha256=${createHmac('sha256', secret).update(raw).digest('hex')}`)
  const received = Buffer.from(header)
  return received.length === expected.length && timingSafeEqual(received, expected)
}

/**
 * Calls `wake` for each wake-up that is signed with the secret.
 * @type {(port: number, secret: string, wake: () => void) => import('node:http').Server}
 */
export function listenForWakeUps(port, secret, wake) {
  const server = createServer((request, response) => {
    /** @type {Buffer[]} */
    const chunks = []
    let size = 0
    request.on('data', (chunk) => {
      size += chunk.length
      // A body that is too large is read to its end all the same: whoever sends it then reads the answer.
      if (size <= BODY_MAX) chunks.push(chunk)
    })
    request.on('end', () => {
      const signed = isSigned(Buffer.concat(chunks), String(request.headers['x-service-signature']), secret)
      response.writeHead(size > BODY_MAX ? 413 : signed ? 204 : 401).end()
      if (signed && size <= BODY_MAX) wake()
    })
    request.on('error', () => {})
  })
  return server.listen(port, '127.0.0.1')
}
