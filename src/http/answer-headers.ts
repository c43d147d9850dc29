// The headers that every answer has, on either listener: the id of its call, and that nobody may keep a copy.

import type { H3Event } from 'h3'

/** The id of a call is logged, and nothing that begins like a key or a secret of ours ever is. */
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
