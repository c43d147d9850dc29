// /healthz, /readyz, /metrics and /ops, for those who run the service. Anybody may ask whether it is up and ready;
// callers without access are answered as if the rest did not exist.

import { H3, type H3Event } from 'h3'
import { frozenJson } from '../../core/frozen.ts'
import type { Instant } from '../../core/time.ts'
import type { Log } from '../../log.ts'
import type { Store } from '../../store/store.ts'
import { openAnswer } from '../answer-headers.ts'
import { type ErrorCode, errorBody, INTERNAL_ERROR, Refusal } from '../error-codes.ts'
import { flawOf, writtenAs } from '../request.ts'
import {
  createAccess,
  type Door,
  namesThisMachine,
  OPS_PATHS,
  type OpsAnswer,
  type OpsPath,
} from './access.ts'
import type { Metrics } from './metrics.ts'
import type { Pasted } from './page.ts'
import { createPages } from './page-calls.ts'
import { createReadiness, keptFor, shared } from './readiness.ts'

export type OpsOptions = {
  clock: () => Instant
  metrics: Metrics
  exposition: string
  /** Without a token, callers at the API's listener see only whether it is ready. */
  token: string | null
  /** Called when a network sends too many wrong tokens, at most once a minute. */
  onManyWrong?: () => void
  /** How commands for the database are written on the page. */
  pasted?: Pasted
}

export type Ops = Pick<Metrics, 'noteRequest'> & {
  /** Null for a caller who may not know that the path exists. */
  answer: (event: H3Event, path: OpsPath, door: Door) => Promise<OpsAnswer> | null
  /** Must be called when the database is open. */
  opened: (store: Store) => Promise<void>
}

/** How long an answer to strangers is reused: a check of readiness writes to the disk. */
const TERSE_MS = 1_000

export function createOps(options: OpsOptions): Ops {
  const { clock, metrics, exposition } = options
  const access = createAccess(options)
  const readinessOf = createReadiness()
  let store: Store | null = null
  const scrape = shared(async () => metrics.read(store))
  const readiness = () =>
    keptFor(TERSE_MS, clock, async () => (await readinessOf(store)).reasons.length === 0)
  let isReady = readiness()
  const pages = createPages(clock, options.pasted)

  async function answerAdmitted(path: OpsPath, query: URLSearchParams): Promise<OpsAnswer> {
    switch (path) {
      case '/healthz':
        return json(200, { status: 'up' })
      case '/readyz': {
        const { reasons, frozen } = await readinessOf(store)
        const state = frozen && { frozen: frozenJson(frozen) }
        return reasons.length === 0
          ? json(200, { ready: true, ...state })
          : json(503, { ready: false, reasons, ...state })
      }
      case '/metrics':
        return { status: 200, headers: { 'content-type': exposition }, body: await scrape() }
      case '/ops':
      case '/ops/export':
        return pages(path, query, store)
      default:
        return path satisfies never
    }
  }

  async function answerStranger(path: OpsPath, { headers }: H3Event['req']): Promise<OpsAnswer> {
    if (path === '/healthz') return json(200, { status: 'up' })
    if (isPage(path)) return headers.has('authorization') ? WRONG_IN_BROWSER : NONE_IN_BROWSER
    if (path !== '/readyz') return UNAUTHORIZED
    const ready = await isReady()
    return json(ready ? 200 : 503, { ready })
  }

  return {
    noteRequest: metrics.noteRequest,
    async opened(open) {
      store = open
      isReady = readiness()
      // If this fails, counting begins at the first scrape.
      await metrics.begin(open).catch(() => {})
    },
    answer(event, path, door) {
      const isPublic = path === '/healthz' || path === '/readyz'
      if (door === 'ops' && !access.hasToken && !isPublic && !namesThisMachine(event))
        return Promise.resolve(MISDIRECTED)
      const isAdmitted = access.admits(event, door)
      // A browser must be asked for the token, so where there is one, strangers learn that the page exists.
      const isAsked = isPublic || (isPage(path) && access.hasToken)
      if (door === 'api' && !isAdmitted && !isAsked) return null
      if (event.req.method !== 'GET') return Promise.resolve(NOT_ALLOWED)
      return isAdmitted ? answerAdmitted(path, event.url.searchParams) : answerStranger(path, event.req)
    },
  }
}

const isPage = (path: OpsPath): boolean => path.startsWith('/ops')

const json = (status: number, body: unknown): OpsAnswer => inJson(status, JSON.stringify(body))

const inJson = (status: number, body: string, headers: Record<string, string> = {}): OpsAnswer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body,
})

const refusal = (code: ErrorCode, detail: string, headers: Record<string, string> = {}): OpsAnswer =>
  asAnswer(new Refusal(code, detail, headers))

const asAnswer = ({ status, detail, headers }: Refusal): OpsAnswer =>
  inJson(status, errorBody(detail), headers)

const NOT_FOUND = refusal('route_not_found', 'Not Found')
const NOT_ALLOWED = refusal('method_not_allowed', 'Method Not Allowed', { allow: 'GET' })
const UNAUTHORIZED = refusal('key_malformed', 'Send the ops token: Authorization: Bearer TOKEN.')
/** A browser asks its user for a password when it gets this. */
const BASIC = { 'www-authenticate': 'Basic realm="tranche", charset="UTF-8"' }
const IN_BROWSER =
  'Send the ops token as the password, with any user name, or as Authorization: Bearer TOKEN.'
const NONE_IN_BROWSER = refusal('key_malformed', IN_BROWSER, BASIC)
const WRONG_IN_BROWSER = refusal('key_invalid', IN_BROWSER, BASIC)
const MISDIRECTED = refusal(
  'misdirected',
  'Without an ops token this listener answers only to localhost or a loopback address.',
)

type OpsParts = { ops: Ops; log: Log; uuid: () => string }

export async function sendOps(
  event: H3Event,
  path: OpsPath | null,
  { answer, log, uuid }: Omit<OpsParts, 'ops'> & { answer: Promise<OpsAnswer> },
): Promise<OpsAnswer['body']> {
  const requestId = openAnswer(event, uuid)
  const { status, headers, body } = await answer.catch((error) => {
    if (error instanceof Refusal) return asAnswer(error)
    log.error({ request_id: requestId, route: path, err: error }, 'ops request failed')
    return asAnswer(INTERNAL_ERROR)
  })
  for (const [name, value] of Object.entries(headers)) event.res.headers.set(name, value)
  event.res.status = status
  log.debug({ request_id: requestId, method: event.req.method, route: path, status }, 'ops request')
  return body
}

/** The listener of operations. It has no partner API. */
export function createOpsApp({ ops, log, uuid }: OpsParts): H3 {
  const app = new H3({ silent: true, onError: (_, event) => refuse(event, NOT_FOUND) })
  const refuse = (event: H3Event, answer: OpsAnswer) =>
    sendOps(event, null, { answer: Promise.resolve(answer), log, uuid })
  app.use((event, next) => {
    const flaw = flawOf(event.req)
    return flaw ? refuse(event, asAnswer(flaw)) : next()
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
