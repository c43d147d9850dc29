// What a request says before its body that no route may be asked about: the path as it was sent, its framing, Host and
// Expect.

import type { IncomingMessage } from 'node:http'
import type { H3Event } from 'h3'
import { Refusal } from './refusal.ts'

/**
 * Whether a path was sent as its route is written, parameters aside. The router reads the path as URLs are read:
 * backslashes, dot segments and needless escapes are gone, so that `/partner/v1/..\..\metrics` would lead to `/metrics`
 * past a proxy that lets only `/partner/v1/` through. Only a parameter, which is one segment, may hold escapes: an id
 * with a slash is sent as `%2F`, and never splits.
 */
export function isWrittenAs(event: H3Event, path: string): boolean {
  const sent = sentPath(event).split('/')
  const parts = path.split('/')
  return parts.length === sent.length && parts.every((part, at) => part.startsWith(':') || part === sent[at])
}

/** Without a query. A target with a scheme and a host, as proxies get it, means the same as its path. */
function sentPath({ req, url }: H3Event): string {
  const target = req.runtime?.node?.req.url ?? url.pathname
  return target.replace(/^https?:\/\/[^/?#\\]*/i, '').replace(/\?.*$/s, '')
}

/** What is wrong with a request whatever it asks for, or null. */
export function flawOf(request: H3Event['req']): Refusal | null {
  const sent = request.runtime?.node?.req
  if (sent && isFramedInDoubt(sent as IncomingMessage))
    return new Refusal(400, FRAMING, { connection: 'close' })
  // Names and values alternate; what is read by name is the first Host alone.
  const hosts = sent?.rawHeaders.filter((name, at) => at % 2 === 0 && /^host$/i.test(name)).length
  if (sent?.httpVersion === '1.1' && hosts !== 1) {
    const detail = hosts === 0 ? 'The Host header is missing.' : 'There is more than one Host header.'
    return new Refusal(400, detail, { connection: 'close' })
  }
  const expected = request.headers.get('expect')
  if (expected === null || asksToContinue(request)) return null
  return new Refusal(417, 'Only 100-continue can be expected.', { connection: 'close' })
}

const FRAMING = 'Send HTTP/1.1, with no Transfer-Encoding but chunked.'

/**
 * Whether a proxy may see another end of this request than Node's parser does: by a transfer coding before `chunked`,
 * chunks from a client of HTTP/1.0, which knows none, or a version that is framed in another way.
 */
export function isFramedInDoubt({ headers, httpVersion }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding']
  if (httpVersion === '1.0') return coding !== undefined
  return httpVersion !== '1.1' || (coding !== undefined && !/^chunked$/i.test(coding))
}

/** Whether the client waits to be told that its body is wanted. */
export const asksToContinue = (request: H3Event['req']): boolean =>
  /^100-continue$/i.test(request.headers.get('expect') ?? '')
