// The headers of every answer, on either listener: the id of its call, and that it must not be cached.

import type { H3Event } from 'h3'

/** The form of a call's id. It is logged, so it must not look like a key or a secret of ours. */
const REQUEST_ID = /^(?=[A-Za-z0-9._-]{1,128}$)(?!.*sse_[a-z]+_)/

/** The id of a call: the one that its client gave, if that is sane, or a new one. */
export const requestIdOf = (given: string, uuid: () => string): string =>
  REQUEST_ID.test(given) ? given : uuid()

/** Sets the headers that every answer has, and returns the id of the call. */
export function openAnswer(event: H3Event, uuid: () => string): string {
  const requestId = requestIdOf(event.req.headers.get('x-request-id') ?? '', uuid)
  event.res.headers.set('x-request-id', requestId)
  event.res.headers.set('cache-control', 'no-store')
  return requestId
}
