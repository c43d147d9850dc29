// Checks what a request says before its body, whatever its route: the path as it was sent, its framing, Host and
// Expect.

import type { IncomingMessage } from 'node:http'
import type { H3Event } from 'h3'
import { Refusal } from './refusal.ts'

/**
 * Tells whether a path was sent as its route is written, parameters aside. The router reads the path as URLs are read:
 * backslashes, dot segments and needless escapes are gone, so that `/partner/v1/..\..\metrics` would lead to `/metrics`
 * past a proxy that lets only `/partner/v1/` through. Only a parameter, which is one segment, may hold escapes: an id
 * with a slash is sent as `%2F`, and never splits.
 */
export function writtenAs(path: string): (event: H3Event) => boolean {
  if (!path.includes('/:')) return (event) => sentPath(event) === path
  const parts = path.split('/').map((part) => (part.startsWith(':') ? null : part))
  return (event) => {
    const sent = sentPath(event).split('/')
    return parts.length === sent.length && parts.every((part, at) => part === null || part === sent[at])
  }
}

/** Without a query. A target with a scheme and a host, as proxies get it, means the same as its path. */
function sentPath({ req, url }: H3Event): string {
  const target = req.runtime?.node?.req.url ?? url.pathname
  const path = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#\\]*/i, '')
  const query = path.indexOf('?')
  return query < 0 ? path : path.slice(0, query)
}

/** What is wrong with a request whatever it asks for, or null. */
export function flawOf(request: H3Event['req']): Refusal | null {
  const sent = request.runtime?.node?.req
  if (sent && isFramedInDoubt(sent as IncomingMessage))
    return new Refusal(400, FRAMING, { connection: 'close' })
  const hosts = sent?.httpVersion === '1.1' ? countHosts(sent.rawHeaders) : 1
  if (hosts !== 1) {
    const detail = hosts === 0 ? 'The Host header is missing.' : 'There is more than one Host header.'
    return new Refusal(400, detail, { connection: 'close' })
  }
  const expected = request.headers.get('expect')
  if (expected === null || asksToContinue(request)) return null
  return new Refusal(417, 'Only 100-continue can be expected.', { connection: 'close' })
}

/** Names and values alternate; what is read by name is the first Host alone. */
function countHosts(rawHeaders: readonly string[]): number {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  return hosts
}

const FRAMING = 'Send HTTP/1.1, with no Transfer-Encoding but chunked.'

/**
 * Whether a proxy may see this request end elsewhere than Node's parser does: because of a transfer coding before
 * `chunked`, chunks from an HTTP/1.0 client, which knows none, or a version that is framed differently.
 */
export function isFramedInDoubt({ headers, httpVersion }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding']
  if (httpVersion === '1.0') return coding !== undefined
  return httpVersion !== '1.1' || (coding !== undefined && !/^chunked$/i.test(coding))
}

/** Whether the client waits to be told to send its body. */
export const asksToContinue = (request: H3Event['req']): boolean =>
  /^100-continue$/i.test(request.headers.get('expect') ?? '')
