// Request bodies and queries: bytes within a limit, text, JSON, and finally a value that a schema has checked.

import { Readable } from 'node:stream'
import type { H3Event } from 'h3'
import { parse as findJsonError, type ParseError } from 'jsonc-parser'
import type { z } from 'zod'
import { Refusal, type ValidationDetail } from './refusal.ts'
import { asksToContinue } from './request-head.ts'

export const BODY_BYTES_MAX = 64 * 1024

/** Reads a body as text. Throws a Refusal: 413, 415, 400 (not UTF-8). */
export async function readText(request: H3Event['req']): Promise<string> {
  refuseEncoded(request)
  return decode(await readBytes(request))
}

/** Reads a JSON object. Throws a Refusal: 413, 415, 400 (not UTF-8), 422. */
export async function readObject(request: H3Event['req']): Promise<object> {
  const text = await readText(request)
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
export function detailOf(issue: z.core.$ZodIssue, place: 'body' | 'query'): ValidationDetail {
  const type = 'params' in issue ? String(issue.params?.type) : 'value_error'
  return {
    type,
    loc: [place, ...issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part))],
    msg: issue.message,
  }
}

export const invalid = (details: ValidationDetail[]): Refusal => new Refusal(422, details)

/** The size limit would mean little for a compressed body. */
function refuseEncoded(request: H3Event['req']): void {
  const encoding = request.headers.get('content-encoding') ?? ''
  if (/^(identity)?$/i.test(encoding)) return
  throw new Refusal(415, 'Content-Encoding is not supported: send the body uncompressed.')
}

const tooLarge = (): Refusal =>
  // The rest of the body is never read: the connection cannot be used again.
  new Refusal(413, `Request body is larger than ${BODY_BYTES_MAX} bytes.`, { connection: 'close' })

async function readBytes(request: H3Event['req']): Promise<Buffer> {
  if (Number(request.headers.get('content-length') ?? 0) > BODY_BYTES_MAX) throw tooLarge()
  if (asksToContinue(request)) request.runtime?.node?.res?.writeContinue()
  return gather(request.runtime?.node?.req ?? Readable.from(request.body ?? []))
}

/** Whether the whole request has already arrived. */
export const hasArrived = (request: H3Event['req']): boolean => request.runtime?.node?.req.complete === true

/** From Node's own stream: each piece of a web stream would also cost promises. */
function gather(body: Readable): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    // The client left in the middle of its request: nobody reads the answer, and the failure is not ours.
    const left = (): void => {
      if (!body.readableEnded) reject(new Refusal(400, 'Request body ended early.', { connection: 'close' }))
    }
    if (body.destroyed) left()
    body.on('data', (chunk: Buffer) => {
      size += chunk.byteLength
      if (size <= BODY_BYTES_MAX) chunks.push(chunk)
      // Not destroyed: that would take the socket away from a request that has yet to be answered. It closes with the
      // answer.
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
    throw new Refusal(400, 'Request body is not valid UTF-8.')
  }
}

function parseJson(text: string, request: H3Event['req']): unknown {
  try {
    return JSON.parse(text)
  } catch {
    const detail = { type: 'json_invalid', loc: ['body', errorOffset(text)], msg: 'JSON decode error' }
    throw new Refusal(422, [detail], {}, mediaType(request.headers.get('content-type')))
  }
}

/**
 * What a client says that it sent, as the log may show it: `type/subtype` in lower case, `none`, or `unreadable` for
 * what is long, is no media type, or might be a key of ours.
 */
function mediaType(header: string | null): string {
  const [essence = ''] = (header ?? '').split(';', 1)
  const type = essence.trim().toLowerCase()
  if (type === '') return 'none'
  return MEDIA_TYPE.test(type) ? type : 'unreadable'
}
const MEDIA_TYPE = /^(?!.*sse_)[\w!#$&^.+-]{1,40}\/[\w!#$&^.+-]{1,80}$/

/** Where a broken text stops being JSON. JSON.parse does not always say where it stopped; a tolerant parser does. */
function errorOffset(text: string): number {
  const errors: ParseError[] = []
  try {
    findJsonError(text, errors, { disallowComments: true, allowTrailingComma: false })
  } catch {
    // That parser is recursive, so it cannot read a text nested thousands deep. Such a text is usually just cut off.
    return text.length
  }
  return errors[0]?.offset ?? text.length
}
