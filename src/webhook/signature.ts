// Signatures of webhook bodies, the headers that carry them, and the mistakes that explain a mismatch.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { EVENT_NAME, PAYLOAD_FIELDS, SECRET_PREFIX } from '../core/webhook.ts'

const SIGNATURE_PREFIX = 'sha256='

/** `sha256=` and the lower-case hex HMAC-SHA256 of the raw body, keyed with the whole secret, prefix included. */
export const signatureOf = (secret: string, body: string | Uint8Array): string =>
  SIGNATURE_PREFIX + hmac(secret, body).toString('hex')

/** The headers of a request: the prefix `X-Service` makes `X-Service-Event` and `X-Service-Signature`. */
export const signedHeaders = (prefix: string, secret: string, body: string): Record<string, string> => ({
  [`${prefix}-Event`]: EVENT_NAME,
  [`${prefix}-Signature`]: signatureOf(secret, body),
})

export function isSignature(given: string, secret: string, body: string | Uint8Array): boolean {
  const expected = Buffer.from(signatureOf(secret, body))
  const received = Buffer.from(given)
  return received.length === expected.length && timingSafeEqual(received, expected)
}

const hmac = (secret: string, body: string | Uint8Array): Buffer =>
  createHmac('sha256', secret).update(body).digest()

/** The mistake that explains why a signature does not match, the likeliest first; null when no known one does. */
export function diagnose(given: string, secret: string, body: Uint8Array): string | null {
  for (const [mistake, holds] of mistakes(given, secret, body)) if (holds()) return mistake
  return null
}

function mistakes(given: string, secret: string, body: Uint8Array): [string, () => boolean][] {
  const signs = (key: string, bytes: string | Uint8Array) => isSignature(given, key, bytes)
  const text = Buffer.from(body).toString('utf8')
  const bare = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret
  return [
    ['the signature lacks its "sha256=" prefix', () => isSignature(SIGNATURE_PREFIX + given, secret, body)],
    [
      'the signature is in upper-case hex; it is sent in lower case',
      () => isSignature(SIGNATURE_PREFIX + given.toLowerCase().replace(SIGNATURE_PREFIX, ''), secret, body),
    ],
    ['there is white space around the signature', () => isSignature(given.trim(), secret, body)],
    [
      'the signature has the name of its header before it',
      () => isSignature(given.replace(/^[\w-]+: */, '').trim(), secret, body),
    ],
    [
      'the signature is base64; it is sent as hex',
      () => given.replace(SIGNATURE_PREFIX, '') === hmac(secret, body).toString('base64'),
    ],
    [
      'the body has a line break at its end that was not sent',
      () => signs(secret, text.replace(/\r?\n$/, '')),
    ],
    ['the body lost the line break at its end', () => signs(secret, `${text}\n`)],
    [
      'the body was parsed and serialised again: verify the raw bytes',
      () => reserialised(text).some((form) => signs(secret, form)),
    ],
    [
      `the secret lost its "${SECRET_PREFIX}" prefix, or the signer used it without: the whole string is the key`,
      () => signs(bare, body) || signs(SECRET_PREFIX + secret, body),
    ],
    ['the secret has white space around it', () => signs(secret.trim(), body) || signs(`${secret}\n`, body)],
  ]
}

/** The usual ways to write the same JSON, with the fields as given, or in the order in which they are sent. */
function reserialised(text: string): string[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return []
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  const sent = Object.keys(value).sort((a, b) => PAYLOAD_FIELDS.indexOf(a) - PAYLOAD_FIELDS.indexOf(b))
  return [value, Object.fromEntries(sent.map((name) => [name, value[name as keyof typeof value]]))].flatMap(
    (fields) => [
      JSON.stringify(fields),
      spaced(fields),
      ...[2, 4].map((by) => JSON.stringify(fields, null, by)),
    ],
  )
}

/** One line with a space after every comma and colon. */
const spaced = (value: object): string =>
  JSON.stringify(value, null, 1)
    .replace(/\n */g, ' ')
    .replace(/^\{ | \}$/g, (edge) => edge.trim())
