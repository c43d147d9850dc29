// The headers that every answer has, on either listener: the id of its call, and no caching. X-Ignored-Fields names the
// fields that a call sent and its route does not know.

import type { H3Event } from 'h3'

export const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/
/** The beginning of our keys and secrets. Ids are logged, so none may look like one. */
const SECRET = /sse_[a-z]+_/

/** The id of a call: the one its client gave, if that is well formed, or a new one. */
export const requestIdOf = (given: string, uuid: () => string): string =>
  REQUEST_ID.test(given) && !SECRET.test(given) ? given : uuid()

/** Sets the headers that every answer has, and returns the id of the call. */
export function openAnswer(event: H3Event, uuid: () => string): string {
  const requestId = requestIdOf(event.req.headers.get('x-request-id') ?? '', uuid)
  event.res.headers.set('x-request-id', requestId)
  event.res.headers.set('cache-control', 'no-store')
  return requestId
}

// Fields that a call sent and its route does not know. They are ignored, as the contract says, and named in the answer,
// so that a misspelt field does not seem to have worked. Their names come from outside, so they are shortened and made
// safe for a header and a log.

/** A member of the body, or a parameter of the query, which is named as `?name`. */
export type Ignored = { place: '' | '?'; name: string }

const NAMES_MAX = 20
const NAME_MAX = 64
/** The most bytes in all, so that the headers of an answer still fit into the smallest buffers of proxies. */
const BYTES_MAX = 1_000

/** The parameters of a query that the route does not know, each once. */
export function ignoredParameters(
  { parameters }: { parameters: ReadonlySet<string> },
  query: URLSearchParams,
): Ignored[] {
  return [...new Set(query.keys())]
    .filter((name) => !parameters.has(name))
    .map((name) => ({ place: '?', name }))
}

export function ignoredMembers({ fields }: { fields: ReadonlySet<string> }, body: object): Ignored[] {
  const ignored: Ignored[] = []
  for (const name of Object.keys(body)) if (!fields.has(name)) ignored.push({ place: '', name })
  return ignored
}

/**
 * The names for a header and the log, separated by a comma and a space; null when there are none. Everything but ASCII
 * letters, digits and `-._~` is percent-encoded UTF-8. An empty name is written `""`, `*` ends one that was cut, and
 * `+N` means N more.
 */
export function tellIgnored(ignored: readonly Ignored[]): string | null {
  if (ignored.length === 0) return null
  let listed = ''
  let names = 0
  for (const { place, name } of ignored.slice(0, NAMES_MAX)) {
    const next = `${listed}${listed && ', '}${place}${spelt(name)}`
    if (next.length > BYTES_MAX) break
    listed = next
    names += 1
  }
  return names === ignored.length ? listed : `${listed}, +${ignored.length - names}`
}

function spelt(name: string): string {
  if (name === '') return '""'
  const begin = [...name.slice(0, NAME_MAX * 2)].slice(0, NAME_MAX).join('')
  // A key or a secret that was sent as a name must not reach the log.
  const characters = begin.replace(/(sse_[a-z]+_).*/s, '$1')
  const escaped = encodeURIComponent(characters.toWellFormed()).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return characters === name ? escaped : `${escaped}*`
}
