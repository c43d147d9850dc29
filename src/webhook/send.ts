// Sends a wake-up: a single attempt, every step of it under a time limit.

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { unreadable } from '../core/problem.ts'
import { type Attempt, payloadOf } from '../core/webhook.ts'
import { call, UNTRUSTED } from '../outgoing-call.ts'
import { VERSION } from '../resources.ts'
import type { Guard } from './address-guard.ts'
import { signedHeaders } from './signature.ts'
import type { Send } from './wake-partners.ts'

export const TOTAL_TIMEOUT_MS = 10_000
export const CONNECT_TIMEOUT_MS = 5_000
const ANSWER_BYTES_MAX = 1_024

type SendOptions = {
  guard: Guard
  /** The prefix of our headers, such as `X-Service`. */
  headerPrefix: string
  /** A PEM file of certificate authorities that are trusted besides the usual ones. */
  caFile: string | null
}

/** Throws when the CA file holds no certificate. No proxy is used: it would resolve names itself. */
export function createSend({ guard, headerPrefix, caFile }: SendOptions): Send {
  const trust = caFile === null ? null : trustAlso(caFile)
  return async ({ webhook, ...wakeUp }) => {
    const started = performance.now()
    const url = new URL(webhook.url)
    const ended = (statusCode: number | null, reason: string | null): Attempt => ({
      statusCode,
      reason,
      durationMs: Math.round(performance.now() - started),
    })
    // The socket resolves names through the guard, and connects to the address that was checked. A literal address is
    // not resolved, so it is checked here.
    const refused = guard.refuseLiteral(url.hostname)
    if (refused) return ended(null, refused.message)
    try {
      const body = payloadOf(wakeUp)
      // Only the status counts. The body is read so that the receiver can finish writing a short answer.
      const { statusCode } = await call(url, {
        method: 'POST',
        body,
        headers: {
          'content-type': 'application/json',
          'user-agent': `tranche/${VERSION}`,
          ...signedHeaders(headerPrefix, webhook.secret, body),
        },
        timeoutMs: TOTAL_TIMEOUT_MS,
        connectTimeoutMs: CONNECT_TIMEOUT_MS,
        answerBytesMax: ANSWER_BYTES_MAX,
        lookup: guard.lookup,
        ...(trust && { secureContext: trust }),
      })
      const delivered = statusCode >= 200 && statusCode < 300
      return ended(statusCode, delivered ? null : `HTTP ${statusCode}`)
    } catch (error) {
      const reason = (error as Error).message
      const hint = reason.startsWith(UNTRUSTED) ? ': --webhook-ca trusts a private one' : ''
      return ended(null, reason + hint)
    }
  }
}

/** The usual authorities and those of the file, read once, because each reading parses all of them. */
function trustAlso(caFile: string): SecureContext {
  const text = textOf(caFile)
  // TLS itself accepts any file, and adds no authority from a bad one, which would be noticed only when sending fails.
  const authorities = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g)
  if (!authorities) throw new Error(`${caFile} holds no certificate in PEM form`)
  for (const certificate of authorities) assertCertificate(certificate, caFile)
  return createSecureContext({ ca: [...getCACertificates('default'), ...authorities] })
}

function textOf(caFile: string): string {
  try {
    return readFileSync(caFile, 'utf8')
  } catch (error) {
    throw unreadable(caFile, error)
  }
}

function assertCertificate(text: string, caFile: string): void {
  try {
    new X509Certificate(text)
  } catch {
    throw new Error(`${caFile} holds a certificate that cannot be read`)
  }
}
