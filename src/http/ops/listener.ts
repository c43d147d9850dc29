// The listener of operations, and how a call for operations is answered on either listener.

import { H3, type H3Event } from 'h3'
import type { Log } from '../../log.ts'
import { openAnswer } from '../answer-headers.ts'
import { Refusal } from '../refusal.ts'
import { flawOf, writtenAs } from '../request-head.ts'
import type { Ops } from './endpoints.ts'
import { OPS_PATHS, type OpsAnswer, type OpsPath } from './paths.ts'

export type OpsParts = { ops: Ops; log: Log; uuid: () => string }

/** Waits for the answer, notes it in the log, and gives it to the caller. */
export async function sendOps(
  event: H3Event,
  path: OpsPath | null,
  { answer, log, uuid }: Omit<OpsParts, 'ops'> & { answer: Promise<OpsAnswer> },
): Promise<OpsAnswer['body']> {
  const requestId = openAnswer(event, uuid)
  const { status, headers, body } = await answer.catch((error) => {
    if (error instanceof Refusal) return json(error.status, error.detail, error.headers)
    log.error({ request_id: requestId, route: path, err: error }, 'ops request failed')
    return json(500, 'Internal Server Error')
  })
  for (const [name, value] of Object.entries(headers)) event.res.headers.set(name, value)
  event.res.status = status
  log.debug({ request_id: requestId, method: event.req.method, route: path, status }, 'ops request')
  return body
}

/** The listener of operations. It has no partner API. */
export function createOpsApp({ ops, log, uuid }: OpsParts): H3 {
  const app = new H3({ silent: true, onError: (_, event) => refuse(event, NOT_FOUND) })
  const refuse = (event: H3Event, refusal: OpsAnswer) =>
    sendOps(event, null, { answer: Promise.resolve(refusal), log, uuid })
  app.use((event, next) => {
    const flaw = flawOf(event.req)
    return flaw ? refuse(event, json(flaw.status, flaw.detail, flaw.headers)) : next()
  })
  for (const path of OPS_PATHS) {
    const isWritten = writtenAs(path)
    app.all(path, (event) => {
      const answer = isWritten(event) ? ops.answer(event, path, 'ops') : null
      return answer ? sendOps(event, path, { answer, log, uuid }) : refuse(event, NOT_FOUND)
    })
  }
  app.all('/**', (event) => refuse(event, NOT_FOUND))
  return app
}

const json = (status: number, detail: unknown, headers: Record<string, string> = {}): OpsAnswer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify({ detail }),
})
const NOT_FOUND = json(404, 'Not Found')
