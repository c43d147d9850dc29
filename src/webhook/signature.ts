// Signatures of webhook bodies, and the headers that carry them.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { EVENT_NAME } from '../core/webhook-payload.ts'

export const SIGNATURE_PREFIX = 'sha256='

/** `sha256=` and the lower-case hex HMAC-SHA256 of the raw body, keyed with the whole secret, its prefix included. */
export const signatureOf = (secret: string, body: string | Uint8Array): string =>
  SIGNATURE_PREFIX + hmac(secret, body).toString('hex')

/** What a request says beside its body: `X-Service` makes `X-Service-Event` and `X-Service-Signature`. */
export const signedHeaders = (prefix: string, secret: string, body: string): Record<string, string> => ({
  [`${prefix}-Event`]: EVENT_NAME,
  [`${prefix}-Signature`]: signatureOf(secret, body),
})

/** Compares in constant time. */
export function isSignature(given: string, secret: string, body: string | Uint8Array): boolean {
  const expected = Buffer.from(signatureOf(secret, body))
  const received = Buffer.from(given)
  return received.length === expected.length && timingSafeEqual(received, expected)
}

export const hmac = (secret: string, body: string | Uint8Array): Buffer =>
  createHmac('sha256', secret).update(body).digest()
