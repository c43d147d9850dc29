// Delivers a wake-up: a single attempt, every step of it under a time limit.

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import type { Agent } from 'undici'
import { unreadable } from '../core/problem.ts'
import { type Attempt, payloadOf } from '../core/webhook.ts'
import { VERSION } from '../resources.ts'
import type { Guard } from './address-guard.ts'
import { signedHeaders } from './signature.ts'
import type { Send } from './wake-partners.ts'

export const TOTAL_TIMEOUT_MS = 10_000
export const CONNECT_TIMEOUT_MS = 5_000
const ANSWER_BYTES_MAX = 1_024

type DeliverOptions = {
  guard: Guard
  /** The prefix of its own headers, such as `X-Service`. */
  headerPrefix: string
  /** A PEM file of certificate authorities that are trusted besides the usual ones. */
  caFile: string | null
}

/**
 * Throws when the CA file cannot be read or holds no certificate. Proxy variables are ignored: a proxy would resolve
 * names on its own.
 */
export function createDeliver({ guard, headerPrefix, caFile }: DeliverOptions): Send {
  const trust = caFile === null ? null : trustAlso(caFile)
  return async ({ webhook, ...wakeUp }) => {
    // A service whose ticks come from cron never sends any.
    const undici = await import('undici')
    const started = performance.now()
    const url = new URL(webhook.url)
    const signal = AbortSignal.timeout(TOTAL_TIMEOUT_MS)
    const agent = createAgent(undici, { guard, url, trust })
    const ended = (statusCode: number | null, reason: string | null): Attempt => ({
      statusCode,
      reason,
      durationMs: Math.round(performance.now() - started),
    })
    try {
      const body = payloadOf(wakeUp)
      const { statusCode, body: answer } = await undici.request(url, {
        method: 'POST',
        body,
        signal,
        dispatcher: agent,
        headers: {
          'content-type': 'application/json',
          'user-agent': `tranche/${VERSION}`,
          ...signedHeaders(headerPrefix, webhook.secret, body),
        },
      })
      // The status decides. The body is read only so that the receiver can finish writing a short answer.
      await answer.dump({ limit: ANSWER_BYTES_MAX, signal }).catch(() => {})
      const delivered = statusCode >= 200 && statusCode < 300
      return ended(statusCode, delivered ? null : `HTTP ${statusCode}`)
    } catch (error) {
      return ended(null, signal.aborted ? `no answer within ${TOTAL_TIMEOUT_MS / 1000} s` : reasonOf(error))
    } finally {
      agent.destroy().catch(() => {})
    }
  }
}

/** The usual authorities and those of the file, read once, because each reading parses all of them. */
function trustAlso(caFile: string): SecureContext {
  const text = textOf(caFile)
  // TLS itself accepts any file, and adds no authority from a bad one: it would be noticed only when deliveries fail.
  const own = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g)
  if (!own) throw new Error(`${caFile} holds no certificate in PEM form`)
  for (const certificate of own) assertCertificate(certificate, caFile)
  return createSecureContext({ ca: [...getCACertificates('default'), ...own] })
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

/**
 * An agent for one delivery. The socket connects to the addresses the guard has just checked, because they come from
 * the guard's own look-up; the name stays in the URL, so SNI and the certificate check are those of the name.
 */
function createAgent(
  undici: typeof import('undici'),
  { guard, url, trust }: { guard: Guard; url: URL; trust: SecureContext | null },
): Agent {
  const connector = undici.buildConnector({
    timeout: CONNECT_TIMEOUT_MS,
    lookup: guard.lookup,
    // A single request on a connection gains nothing from HTTP/2, and every receiver speaks HTTP/1.1.
    allowH2: false,
    // Set explicitly, so that no environment variable can switch the check off.
    rejectUnauthorized: true,
    ...(trust && { secureContext: trust }),
  })
  return new undici.Agent({
    connect: (options, callback) => {
      // A literal address is not looked up: it is checked here.
      const refused = guard.refuseLiteral(url.hostname)
      if (refused) callback(refused, null)
      else connector(options, callback)
    },
    headersTimeout: TOTAL_TIMEOUT_MS,
    bodyTimeout: TOTAL_TIMEOUT_MS,
    pipelining: 0,
  })
}

function reasonOf(error: unknown): string {
  const { message, code, cause } = error as { message?: string; code?: string; cause?: { message?: string } }
  // OpenSSL appends its own call stack, line by line.
  const [text = ''] = (cause?.message || message || code || 'failed').split('\n')
  // Some of Node's messages end with advice about a flag of its own, which an operator of this program cannot set.
  return text.replace(
    /; if the root CA is installed locally.*$/,
    ' (--webhook-ca trusts a private authority)',
  )
}
