// From a step to the bytes of one request: what the world knows is filled in, and then the mutations spoil it.

import { type Noun, OPERATIONS, type Source } from './operations.ts'
import type { CallStep, Mutation, Stranger } from './steps.ts'

/** A request as it goes out, and what the oracle has to know about it. */
export type Request = {
  method: string
  target: string
  headers: (readonly [name: string, value: string])[]
  body: Uint8Array | null
  stranger: Stranger | null
  requestId: string
  /** Nothing was done to it. */
  isPlain: boolean
}
type Known = (noun: Noun, at: number) => string
type Draft = {
  method: string
  segments: string[]
  /** Which of them is an id, and reaches further than the router. */
  idAt: number | null
  query: string | null
  members: { name: string; text: string }[] | null
  headers: (readonly [name: string, value: string])[]
  stranger: Stranger | null
  /** What is done to the bytes of the body, once there are any. */
  spoil: ((bytes: Uint8Array) => Uint8Array)[]
}

export function requestOf(
  step: CallStep,
  { known, requestId }: { known: Known; requestId: string },
): Request {
  const draft = draftOf(step, known)
  for (const mutation of step.mutations) mutate(draft, mutation)
  const { method, segments, query, headers, stranger, spoil } = draft
  const written = draft.members && Buffer.from(objectOf(draft.members))
  const body = spoil.reduce((bytes: Uint8Array | null, change) => change(bytes ?? new Uint8Array()), written)
  return {
    method,
    target: segments.join('/') + (query === null ? '' : `?${query}`),
    headers: [['X-Request-Id', requestId], ...headers],
    body,
    stranger,
    requestId,
    isPlain: step.mutations.length === 0,
  }
}

function draftOf({ call }: CallStep, known: Known): Draft {
  const operation = OPERATIONS[call.operation]
  if (!operation) throw new Error(`there is no operation ${call.operation}`)
  const textOf = (value: Source) =>
    'text' in value ? value.text : JSON.stringify(known(value.known, value.at))
  const plainOf = (value: Source) => String(JSON.parse(textOf(value))).toWellFormed()
  const inPath = new Map(
    call.path.map(({ name, value }) => [`{${name}}`, encodeURIComponent(plainOf(value))]),
  )
  const query = call.query.map(({ name, value }) => `${name}=${encodeURIComponent(plainOf(value))}`)
  const parts = operation.template.split('/')
  const idAt = parts.findIndex((part) => part.startsWith('{'))
  return {
    method: operation.method,
    segments: parts.map((part) => inPath.get(part) ?? part),
    idAt: idAt < 0 ? null : idAt,
    query: query.length === 0 ? null : query.join('&'),
    members: call.body?.map(({ name, value }) => ({ name, text: textOf(value) })) ?? null,
    headers: [],
    stranger: null,
    spoil: [],
  }
}

const objectOf = (members: { name: string; text: string }[]): string =>
  `{${members.map(({ name, text }) => `${JSON.stringify(name)}:${text}`).join(',')}}`

function mutate(draft: Draft, mutation: Mutation): void {
  const members = draft.members ?? []
  const around = <T>(list: readonly T[], at: number): number => (list.length === 0 ? 0 : at % list.length)
  switch (mutation.kind) {
    case 'drop':
      return void members.splice(around(members, mutation.at), 1)
    case 'value':
      for (const member of members.slice(around(members, mutation.at)).slice(0, 1))
        member.text = mutation.json
      return
    case 'add':
      draft.members = members.toSpliced(around(members, mutation.at), 0, {
        name: mutation.name,
        text: mutation.json,
      })
      return
    case 'repeat': {
      const name = members[around(members, mutation.at)]?.name ?? 'status'
      const again = { name, text: mutation.json }
      draft.members = mutation.isFirst ? [again, ...members] : [...members, again]
      return
    }
    case 'cut':
      return void draft.spoil.push((bytes) => bytes.slice(0, around([...bytes], mutation.at)))
    case 'insert':
      return void draft.spoil.push((bytes) => {
        const at = around([...bytes], mutation.at)
        return Buffer.concat([bytes.slice(0, at), mutation.bytes, bytes.slice(at)])
      })
    case 'body':
      return void draft.spoil.push(() => Buffer.from(mutation.json))
    case 'header':
      return void draft.headers.push(mutation.line)
    case 'segment':
      draft.segments[draft.idAt ?? 1 + around(draft.segments.slice(1), mutation.at)] = mutation.segment
      return
    case 'query':
      draft.query = mutation.query
      return
    case 'method':
      draft.method = mutation.method
      return
    case 'key':
      draft.stranger = mutation.key
  }
}

/** The bytes, with the key given; `chunks` are the lengths of the chunks of the body, over and over. */
export function bytesOf(
  request: Request,
  { authorization, chunks }: { authorization: string | null; chunks: number[] | null },
) {
  const { method, target, headers, body } = request
  const framing =
    body === null ? [] : chunks ? ['Transfer-Encoding: chunked'] : [`Content-Length: ${body.length}`]
  const head = [
    `${method} ${lineSafe(target)} HTTP/1.1`,
    'Host: 127.0.0.1',
    ...(authorization === null ? [] : [`Authorization: ${authorization}`]),
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...framing,
  ]
  const start = Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1')
  if (body === null) return start
  return Buffer.concat([start, chunks ? chunked(body, chunks) : body])
}

/** A target ends at the first blank: what a request line cannot hold is for the fuzzer of bytes. */
const lineSafe = (target: string): string => target.replace(/[^\x21-\x7e]/g, '')

function chunked(body: Uint8Array, lengths: number[]): Uint8Array {
  const parts: Uint8Array[] = []
  // No more than so many pieces: how small they may be is a question of its own.
  const least = Math.ceil(body.length / 1_000)
  for (let at = 0, n = 0; at < body.length; n++) {
    const length = Math.max(least, lengths[n % lengths.length] ?? 1)
    const piece = body.slice(at, at + length)
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'))
    at += length
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
}
