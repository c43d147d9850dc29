// An outgoing call, to a webhook, a price source or a monitor: one request on a connection of its own, every step under
// a limit, and each failure in plain words.

import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { LookupFunction } from 'node:net'
import type { SecureContext } from 'node:tls'
import { Problem } from './core/problem.ts'

type Call = {
  method: 'GET' | 'POST'
  headers: OutgoingHttpHeaders
  body?: string
  timeoutMs: number
  /** For the connection and its TLS. */
  connectTimeoutMs?: number
  /** The rest of the answer's body is not read. */
  answerBytesMax: number
  lookup?: LookupFunction
  secureContext?: SecureContext
}

/** An answer whose head, at least, was read. `flaw` says why its body is incomplete; null if it is complete. */
type Answer = { statusCode: number; headers: IncomingHttpHeaders; body: Buffer; flaw: string | null }

const HEAD_BYTES_MAX = 16 * 1024
/** Answers 1xx before the final one. RFC 9110, section 15.2: a client accepts any number of them. */
const INTERIM_ANSWERS_MAX = 100

/** Throws when no head of a final answer was read. No variable sets a proxy or switches off the check of TLS. */
export async function call(url: URL, options: Call): Promise<Answer> {
  // Loaded only when needed: most ticks make no call.
  const { request } = url.protocol === 'https:' ? await import('node:https') : await import('node:http')
  const { method, headers, body, lookup, secureContext } = options
  const outgoing = request(url, {
    method,
    headers,
    agent: false,
    maxHeaderSize: HEAD_BYTES_MAX,
    // Accepts what RFC 9112 requires of a client and Node otherwise refuses, such as a folded header. It is unsafe only
    // where several requests share a connection.
    insecureHTTPParser: true,
    rejectUnauthorized: true,
    ...(lookup && { lookup }),
    ...(secureContext && { secureContext }),
  })
  const answer = answerTo(outgoing, options)
  outgoing.end(body)
  return answer
}

function answerTo(
  outgoing: ClientRequest,
  { timeoutMs, connectTimeoutMs = timeoutMs, answerBytesMax }: Call,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  let head: IncomingMessage | null = null
  const chunks: Buffer[] = []
  let bytes = 0
  let interim = 0
  const connecting = setTimeout(
    () => end(`no connection within ${connectTimeoutMs / 1000} s`),
    connectTimeoutMs,
  )
  const waiting = setTimeout(
    () => end(`no ${head ? 'whole ' : ''}answer within ${timeoutMs / 1000} s`),
    timeoutMs,
  )
  outgoing
    .on('socket', (socket) => {
      const connected = outgoing.protocol === 'https:' ? 'secureConnect' : 'connect'
      socket.once(connected, () => clearTimeout(connecting))
    })
    .on('information', () => {
      if (++interim > INTERIM_ANSWERS_MAX) end(`more than ${INTERIM_ANSWERS_MAX} interim answers`)
    })
    .on('response', (response) => {
      head = response
      response
        .on('data', (chunk: Buffer) => {
          bytes += chunk.length
          if (bytes > answerBytesMax) end(`its answer is larger than ${answerBytesMax} bytes`)
          else chunks.push(chunk)
        })
        .on('end', () => end(null))
        .on('error', () => end(CUT_OFF))
    })
    // Without a listener, Node ends such a connection without a word.
    .on('upgrade', (response) => {
      head = response
      end(null)
    })
    .on('error', (error) => end(reasonOf(error)))
    .on('close', () => end(head ? CUT_OFF : HUNG_UP))
  return promise

  /** Only the first call counts. */
  function end(flaw: string | null): void {
    clearTimeout(connecting)
    clearTimeout(waiting)
    outgoing.destroy()
    if (head === null) reject(new Error(flaw ?? HUNG_UP))
    else
      resolve({ statusCode: head.statusCode ?? 0, headers: head.headers, body: Buffer.concat(chunks), flaw })
  }
}

const HUNG_UP = 'the connection was closed before an answer'
const CUT_OFF = 'its answer was cut off'
/** A reason that begins like this can be fixed by naming the authority of a certificate. */
export const UNTRUSTED = 'its certificate is of an authority that is not trusted'

/** The reasons, by the code and the message of an error of the system, the parser or TLS; the first match counts. */
const REASONS: [RegExp, string][] = [
  [/^ECONNREFUSED /, 'the connection was refused'],
  [/^(ECONNRESET|ECONNABORTED|EPIPE) /, HUNG_UP],
  [/^ETIMEDOUT /, 'the connection could not be made in time'],
  [/^(EHOST|ENET|EADDRNOTAVAIL)/, 'its address cannot be reached'],
  [/^(ENOTFOUND|ENODATA|EAI_)/, 'its name does not resolve'],
  [/^(EMFILE|ENFILE|ENOBUFS|ENOMEM) /, 'this machine has no socket left'],
  [/^HPE_HEADER_OVERFLOW /, `the headers of its answer are larger than ${HEAD_BYTES_MAX} bytes`],
  [/^HPE_/, 'its answer is not HTTP'],
  [/^(ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH) /, 'its certificate is for another name'],
  [/^CERT_HAS_EXPIRED /, 'its certificate has expired'],
  [/^CERT_NOT_YET_VALID /, 'its certificate is not valid yet'],
  [/^(DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_GET_ISSUER_|UNABLE_TO_VERIFY_|CERT_UNTRUSTED)/, UNTRUSTED],
  [/^(CERT_|CRL_|INVALID_|PATH_LENGTH_|UNABLE_TO_)/, 'its certificate is not valid'],
  [
    /^(EPROTO|ERR_SSL_).*(wrong version number|packet length too long|http request)/s,
    'it does not answer in TLS',
  ],
  [/^(EPROTO |ERR_(TLS|SSL|OSSL)_)/, 'no TLS connection could be agreed on'],
]

function reasonOf(error: Error & { code?: string }): string {
  // An address that the guard on webhooks refuses.
  if (error instanceof Problem) return error.message
  const code = error.code ?? error.name
  const known = REASONS.find(([fits]) => fits.test(`${code} ${error.message}`))
  return `${known?.[1] ?? 'the call failed'} (${code})`
}
