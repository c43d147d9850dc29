// A request as it was sent: its path, framing, body and query, and the network it comes from.

import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { H3Event } from 'h3'
import ipaddr from 'ipaddr.js'
import { visit } from 'jsonc-parser'
import type { z } from 'zod'
import { Refusal, type ValidationDetail } from './error-codes.ts'

// Checks before the body, whatever the route: the path, the framing, Host and Expect.

/**
 * Whether a path was sent as its route is written, apart from parameters. The router normalises the path like any URL:
 * backslashes, dot segments and needless escapes disappear, so that `/partner/v1/..\..\metrics` would lead to
 * `/metrics` past a proxy that lets only `/partner/v1/` through. Only a parameter, which is one segment, may contain
 * escapes: an id with a slash is sent as `%2F`, and never splits.
 */
export function writtenAs(path: string): (event: H3Event) => boolean {
  if (!path.includes('/:')) return (event) => sentPath(event) === path
  const parts = path.split('/').map((part) => (part.startsWith(':') ? null : part))
  return (event) => {
    const sent = sentPath(event).split('/')
    return parts.length === sent.length && parts.every((part, at) => part === null || part === sent[at])
  }
}

/** The path as sent, without its query, and without the scheme and host that proxies get. */
function sentPath({ req, url }: H3Event): string {
  const target = req.runtime?.node?.req.url ?? url.pathname
  const path = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#\\]*/i, '')
  const query = path.indexOf('?')
  return query < 0 ? path : path.slice(0, query)
}

export function flawOf(request: H3Event['req']): Refusal | null {
  const sent = request.runtime?.node?.req
  if (sent && isFramedInDoubt(sent as IncomingMessage))
    return new Refusal('bad_request', FRAMING, { connection: 'close' })
  const hosts = sent?.httpVersion === '1.1' ? countHosts(sent.rawHeaders) : 1
  if (hosts !== 1) {
    const detail = hosts === 0 ? 'The Host header is missing.' : 'There is more than one Host header.'
    return new Refusal('bad_request', detail, { connection: 'close' })
  }
  const expected = request.headers.get('expect')
  if (expected === null || asksToContinue(request)) return null
  return new Refusal('expectation_failed', 'Only 100-continue can be expected.', { connection: 'close' })
}

/** Names and values alternate. Reading by name would give only the first Host. */
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
 * `chunked`, chunks from an HTTP/1.0 client, which does not know them, or another version of HTTP.
 */
export function isFramedInDoubt({ headers, httpVersion }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding']
  if (httpVersion === '1.0') return coding !== undefined
  return httpVersion !== '1.1' || (coding !== undefined && !/^chunked$/i.test(coding))
}

const asksToContinue = (request: H3Event['req']): boolean =>
  /^100-continue$/i.test(request.headers.get('expect') ?? '')

// Request bodies and queries: bytes within a limit, text, JSON, and finally a value that a schema has checked.

export const BODY_BYTES_MAX = 64 * 1024

/** Reads a body as text. Throws a Refusal: 413, 415, 400 (not UTF-8). */
export async function readText(request: H3Event['req']): Promise<string> {
  refuseEncoded(request)
  return decode(await readBytes(request))
}

/** The JSON object that a body holds. Throws a Refusal: 422. */
export function objectIn(text: string, request: H3Event['req']): object {
  if (text.trim() === '') throw invalid([{ type: 'missing', loc: ['body'], msg: 'Field required' }])
  const json = parseJson(text, request)
  if (json === null || typeof json !== 'object' || Array.isArray(json)) {
    const msg = 'Input should be a valid dictionary or object to extract fields from'
    throw invalid([{ type: 'model_attributes_type', loc: ['body'], msg }])
  }
  return json
}

/** Checks a body. Throws a Refusal: 422. */
export function checkBody<T extends z.ZodType>(json: object, schema: T): z.output<T> {
  const parsed = schema.safeParse(json)
  if (parsed.success) return parsed.data
  throw invalid(parsed.error.issues.map((issue) => detailOf(issue, 'body')))
}

/** Checks query parameters. Throws a Refusal: 422. */
export function readQuery<T extends z.ZodType>(given: URLSearchParams, schema: T): z.output<T> {
  const parsed = schema.safeParse(Object.fromEntries(given))
  if (parsed.success) return parsed.data
  throw invalid(parsed.error.issues.map((issue) => detailOf(issue, 'query')))
}

/** A schema's complaint about one field, in the shape of the wire. */
function detailOf(issue: z.core.$ZodIssue, place: 'body' | 'query'): ValidationDetail {
  const type = 'params' in issue ? String(issue.params?.type) : 'value_error'
  return {
    type,
    loc: [place, ...issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part))],
    msg: issue.message,
  }
}

const invalid = (details: ValidationDetail[]): Refusal => new Refusal('validation_failed', details)

/** Refuses a compressed body, for which the size limit would mean little. */
function refuseEncoded(request: H3Event['req']): void {
  const encoding = request.headers.get('content-encoding') ?? ''
  if (/^(identity)?$/i.test(encoding)) return
  throw new Refusal('body_encoded', 'Content-Encoding is not supported: send the body uncompressed.')
}

const tooLarge = (): Refusal =>
  // The rest of the body is never read: the connection cannot be used again.
  new Refusal('body_too_large', `Request body is larger than ${BODY_BYTES_MAX} bytes.`, {
    connection: 'close',
  })

async function readBytes(request: H3Event['req']): Promise<Buffer> {
  if (Number(request.headers.get('content-length') ?? 0) > BODY_BYTES_MAX) throw tooLarge()
  if (asksToContinue(request)) request.runtime?.node?.res?.writeContinue()
  return gather(request.runtime?.node?.req ?? Readable.from(request.body ?? []))
}

export const hasArrived = (request: H3Event['req']): boolean => request.runtime?.node?.req.complete === true

/** Reads Node's own stream: each chunk of a web stream would also cost promises. */
function gather(body: Readable): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    // The client left in the middle of its request: nobody reads the answer, and it is not our failure.
    const left = (): void => {
      if (!body.readableEnded)
        reject(new Refusal('bad_request', 'Request body ended early.', { connection: 'close' }))
    }
    if (body.destroyed) left()
    body.on('data', (chunk: Buffer) => {
      size += chunk.byteLength
      if (size <= BODY_BYTES_MAX) chunks.push(chunk)
      // Not destroyed, because that would close the socket before the answer. The answer closes it.
      else reject(tooLarge())
    })
    body.once('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)))
    body.once('error', left).once('close', left)
  })
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Refusal('body_not_utf8', 'Request body is not valid UTF-8.')
  }
}

function parseJson(text: string, request: H3Event['req']): unknown {
  try {
    return JSON.parse(text)
  } catch {
    const detail = { type: 'json_invalid', loc: ['body', errorOffset(text)], msg: 'JSON decode error' }
    throw new Refusal('validation_failed', [detail], {}, mediaType(request.headers.get('content-type')))
  }
}

/** For the log: `type/subtype`, `none`, or `unreadable` for what is too long, no media type, or perhaps a key. */
function mediaType(header: string | null): string {
  const [essence = ''] = (header ?? '').split(';', 1)
  const type = essence.trim().toLowerCase()
  if (type === '') return 'none'
  return MEDIA_TYPE.test(type) ? type : 'unreadable'
}
const MEDIA_TYPE = /^(?!.*sse_)[\w!#$&^.+-]{1,40}\/[\w!#$&^.+-]{1,80}$/

/**
 * The offset at which a broken text stops being JSON. JSON.parse does not always give it; a tolerant parser does, and
 * is stopped there, because every byte of a text may be broken.
 */
function errorOffset(text: string): number {
  // That parser is recursive, so it cannot read a text nested thousands deep. Such a text is usually cut off at its
  // end.
  let first = text.length
  const onError = (_code: number, offset: number): never => {
    first = offset
    throw STOP
  }
  try {
    visit(text, { onError }, { disallowComments: true, allowTrailingComma: false })
  } catch {}
  return first
}
const STOP = new Error('the first error of a text')

/** The network of a peer; null for this machine. The owner of an IPv6 network has all of its addresses. */
export function networkOf(peer: string | undefined): string | null {
  if (peer === undefined || !ipaddr.isValid(peer)) return null
  const address = ipaddr.process(peer)
  if (address.range() === 'loopback') return null
  return 'parts' in address ? address.parts.slice(0, 4).join(':') : address.toString()
}
