// The HTTP service: what every call goes through on its way to a handler and back.

import { H3, type H3Event } from 'h3'
import { createListings } from '../billing/statement.ts'
import type { KeySeen } from '../core/key.ts'
import { admit } from '../core/key.ts'
import { Problem } from '../core/problem.ts'
import type { Log } from '../log.ts'
import type { Store } from '../store/store.ts'
import { authenticate, createDoor, createRateLimit, type Door, isUseStale } from './auth.ts'
import { type CallLine, createCallLog, openAnswer } from './call-log.ts'
import { DOCS_PATHS, type DocsPath, readDocs } from './docs-page.ts'
import { getDescription } from './openapi/document.ts'
import { OPS_PATHS } from './ops/access.ts'
import type { Ops } from './ops/endpoints.ts'
import { sendOps } from './ops/endpoints.ts'
import { CHALLENGE, PUT_OFF, Refusal, STATUS_OF } from './refusal.ts'
import {
  checkBody,
  flawOf,
  hasArrived,
  type Ignored,
  ignoredMembers,
  ignoredParameters,
  readObject,
  readQuery,
  tellIgnored,
  writtenAs,
} from './request.ts'
import type { Call, Route, Services } from './route.ts'
import { ROUTES } from './routes.ts'
import { CALLS_PER_KEY_MAX, createOneAtATime, createTurns, type Turn } from './turns.ts'

export type AppOptions = Omit<Services, 'store' | 'listings'> & {
  /** Null while the database is being opened: every call is then told to try again. */
  store: Store | null
  log: Log
  ops?: Ops
  /** Requests a second and key; null for no limit. */
  rateLimit: number | null
  /** The most calls of a key at once. */
  callsPerKey?: number | undefined
}

/** What answers calls; `knock` is asked first, if what listens can. */
export type App = H3 & Pick<Door, 'knock'>

export function createApp(options: AppOptions): App {
  const { store, machine, guard, log, ops, rateLimit, callsPerKey = CALLS_PER_KEY_MAX } = options
  const limit = rateLimit === null ? null : createRateLimit(rateLimit)
  const takeTurn = createTurns(callsPerKey)
  const oneAtATime = createOneAtATime()
  const listings = createListings()
  /** The keys whose last use is being written: one write for each, however many calls come meanwhile. */
  const beingNoted = new Set<string>()
  const logCall = createCallLog(log)
  const note = (line: CallLine, bug: unknown): void => {
    logCall(line, bug)
    ops?.noteRequest(line)
  }
  // While the database is being opened, nobody is told that a key is wrong.
  const door =
    store &&
    createDoor({
      findKey: (sha256) => store.findKey(sha256),
      uuid: machine.uuid,
      note: (line) => note(line, null),
    })
  // h3 itself refuses a path that is not validly encoded: it names nothing, like any other unknown path.
  const app = new H3({ silent: true, onError: (_, event) => answer(event, []) })

  app.use((event, next) => {
    const flaw = flawOf(event.req)
    return flaw ? answer(event, [], flaw) : next()
  })
  for (const [path, routes] of Map.groupBy([...ROUTES, getDescription], (route) => route.path)) {
    const isWritten = writtenAs(path)
    app.all(path, (event) => answer(event, isWritten(event) ? routes : []))
  }
  for (const path of OPS_PATHS) {
    const isWritten = writtenAs(path)
    app.all(path, (event) => {
      const told = isWritten(event) ? ops?.answer(event, path, 'api') : null
      return told ? sendOps(event, path, { answer: told, log, uuid: machine.uuid }) : answer(event, [])
    })
  }
  for (const path of DOCS_PATHS) {
    const isWritten = writtenAs(path)
    app.all(path, (event) => (isWritten(event) ? answerDocs(event, path) : answer(event, [])))
  }
  app.all('/**', (event) => answer(event, []))
  return Object.assign(app, { knock: door ? door.knock : () => true })

  async function answerDocs(event: H3Event, path: DocsPath): Promise<string | Uint8Array> {
    if (event.req.method !== 'GET') return answer(event, [], NOT_GET)
    openAnswer(event, machine.uuid)
    const { headers, body } = await readDocs(path)
    for (const [name, value] of Object.entries(headers)) event.res.headers.set(name, value)
    return body
  }

  async function answer(event: H3Event, routes: readonly Route[], flaw?: Refusal): Promise<string> {
    const started = performance.now()
    const requestId = openAnswer(event, machine.uuid)
    const { headers } = event.res
    headers.set('content-type', 'application/json')
    const trail: Trail = { caller: null, turn: null, ignored: [] }
    const answered = flaw ? Promise.reject(flaw) : call(event, { routes, headers, trail })
    const outcome = await answered.catch(refusalOf)
    trail.turn?.leave()
    for (const [name, value] of Object.entries(outcome.headers)) headers.set(name, value)
    const ignored = tellIgnored(trail.ignored)
    if (ignored !== null) headers.set('x-ignored-fields', ignored)
    const line = {
      request_id: requestId,
      method: event.req.method,
      route: routes[0]?.path ?? null,
      partner_slug: trail.caller?.key.tenant.partnerSlug ?? null,
      environment: trail.caller?.key.tenant.environment ?? null,
      status: outcome.status,
      duration_ms: Math.round((performance.now() - started) * 100) / 100,
      ...(ignored !== null && { ignored_fields: ignored }),
      ...(outcome.contentType !== undefined && { content_type: outcome.contentType }),
    }
    note(line, outcome.bug)
    event.res.status = outcome.status
    return outcome.text
  }

  async function call(event: H3Event, { routes, headers, trail }: Passage): Promise<Outcome> {
    if (routes.some((candidate) => candidate.text)) {
      return { status: 200, text: routeFor(event.req.method, routes).text?.() ?? '', headers: {}, bug: null }
    }
    if (!store) throw new Refusal(503, 'The database is being opened; try again.', { 'retry-after': '1' })
    const now = machine.clock()
    const authorization = event.req.headers.get('authorization')
    const caller = door?.seen(event.req.runtime?.node?.req) ?? (await authenticate(store, authorization))
    admit(caller)
    trail.caller = caller
    limit?.(caller.key.keyId, now)
    trail.turn = takeTurn(caller.key.keyId)
    if (trail.turn.ready) await trail.turn.ready
    if (isUseStale(caller, now)) noteUse(store, caller)
    const route = routeFor(event.req.method, routes)
    if (event.url.search !== '') trail.ignored = ignoredParameters(route, event.url.searchParams)
    const query = route.query ? readQuery(event.url.searchParams, route.query) : undefined
    // A body takes as long as its sender likes, and the key may have ended meanwhile.
    const mustWait = trail.turn.ready !== null || (route.body !== null && !hasArrived(event.req))
    const body = await readBody(event, route, trail)
    if (mustWait) await authenticate(store, authorization)
    const checked: Call<unknown> = {
      store,
      machine,
      guard,
      listings,
      caller,
      tenant: { ...caller.key.tenant, keyId: caller.key.keyId },
      params: decodeParams(event.context.params ?? {}),
      body,
      query,
      alone: (work) => oneAtATime(caller.key.tenant.tenantId, work),
      setHeader: (name, value) => headers.set(name, value),
    }
    const text = JSON.stringify(await route.handle(checked as Call<never, never>))
    return { status: 200, text, headers: {}, bug: null }
  }

  /** Done in parallel to the request, not before its answer: a read must not wait for a write lock. */
  function noteUse(store: Store, { key: { keyId, tenant } }: KeySeen): void {
    if (beingNoted.has(keyId)) return
    beingNoted.add(keyId)
    store
      .markKeyUsed(tenant, keyId)
      .then(() => beingNoted.delete(keyId))
      .catch((error) => {
        log.warn({ key_id: keyId, error: String(error) }, 'key use not noted')
        setTimeout(() => beingNoted.delete(keyId), NOTE_AGAIN_MS).unref()
      })
  }
}

/** After a failure to note the use of a key, how long to wait before trying again. */
const NOTE_AGAIN_MS = 60_000

const NOT_GET = new Refusal(405, 'Method Not Allowed', { allow: 'GET' })

type Trail = { caller: KeySeen | null; turn: Turn | null; ignored: Ignored[] }
type Passage = { routes: readonly Route[]; headers: Headers; trail: Trail }
type Outcome = {
  status: number
  text: string
  headers: Record<string, string>
  bug: unknown
  contentType?: string | undefined
}

function routeFor(method: string, routes: readonly Route[]): Route {
  if (routes.length === 0) throw new Refusal(404, 'Not Found')
  const route = routes.find((candidate) => candidate.method === method)
  if (route) return route
  throw new Refusal(405, 'Method Not Allowed', { allow: routes.map(({ method }) => method).join(', ') })
}

/** Reads and checks the body of a call, and notes what of it is ignored, also when the rest is refused. */
async function readBody(event: H3Event, route: Route, trail: Trail): Promise<unknown> {
  if (!route.body) return undefined
  const json = await readObject(event.req)
  trail.ignored = [...trail.ignored, ...ignoredMembers(route, json)]
  return checkBody(json, route.body)
}

function refusalOf(error: unknown): Outcome {
  if (error instanceof Refusal) {
    const { status, detail, headers, contentType } = error
    return { status, text: textOf(detail), headers, bug: null, contentType }
  }
  if (error instanceof Problem) {
    const { code, message } = error
    const [status, putOff] = [STATUS_OF[code], PUT_OFF[code]]
    if (putOff)
      return {
        status,
        text: textOf(putOff.detail),
        headers: { 'retry-after': putOff.retryAfter },
        bug: error,
      }
    if (status < 500)
      return { status, text: textOf(message), headers: status === 401 ? CHALLENGE : {}, bug: null }
  }
  return { status: 500, text: textOf('Internal Server Error'), headers: {}, bug: error }
}

const textOf = (detail: Refusal['detail']): string => JSON.stringify({ detail })

/** Ids may hold any character, so a segment is decoded after routing; one that is not validly encoded names nothing. */
function decodeParams(params: Record<string, string>): Record<string, string> {
  try {
    return Object.fromEntries(
      Object.entries(params).map(([name, value]) => [name, decodeURIComponent(value)]),
    )
  } catch {
    throw new Refusal(404, 'Not Found')
  }
}
