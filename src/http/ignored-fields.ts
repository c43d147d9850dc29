// What a call sent and its route does not know: ignored, as the contract wants, and named, so that a misspelt field
// does not pass for one that was obeyed. Names are foreign text; what is told of them is short, and safe in a header
// or a log.

import type { Route } from './route.ts'

/** A member of the body, or a parameter of the query, which is told as `?name`. */
export type Ignored = { place: '' | '?'; name: string }

/** How many names are told; of the others, only their number. */
const NAMES_MAX = 20
/** How many characters of a name are told. */
const NAME_MAX = 64
/** The most bytes in all, so that the headers of an answer still fit into the smallest buffers of proxies. */
const BYTES_MAX = 1_000

/** The parameters of a query that the route has no use for, each once. */
export function ignoredParameters({ parameters }: Route, query: URLSearchParams): Ignored[] {
  return [...new Set(query.keys())]
    .filter((name) => !parameters.has(name))
    .map((name) => ({ place: '?', name }))
}

/** The members of a body that the route has no use for, in the order they were sent. */
export function ignoredMembers({ fields }: Route, body: object): Ignored[] {
  const ignored: Ignored[] = []
  for (const name of Object.keys(body)) if (!fields.has(name)) ignored.push({ place: '', name })
  return ignored
}

/**
 * The names as a header and the log have them, with a comma and a space between them; null when there are none.
 * Whatever is not a letter or a digit of ASCII, or one of `-._~`, is percent-encoded UTF-8. An empty name is `""`, `*`
 * ends one that was cut, and `+N` says that there are N more.
 */
export function tellIgnored(ignored: readonly Ignored[]): string | null {
  if (ignored.length === 0) return null
  let told = ''
  let names = 0
  for (const { place, name } of ignored.slice(0, NAMES_MAX)) {
    const next = `${told}${told && ', '}${place}${spelt(name)}`
    if (next.length > BYTES_MAX) break
    told = next
    names += 1
  }
  return names === ignored.length ? told : `${told}, +${ignored.length - names}`
}

function spelt(name: string): string {
  if (name === '') return '""'
  const begin = [...name.slice(0, NAME_MAX * 2)].slice(0, NAME_MAX).join('')
  // A key or a secret of ours that was sent as a name goes into no log.
  const characters = begin.replace(/(sse_[a-z]+_).*/s, '$1')
  const escaped = encodeURIComponent(characters.toWellFormed()).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return characters === name ? escaped : `${escaped}*`
}
