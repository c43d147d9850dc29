// The HTTP service: its paths, and the steps that every call goes through on its way to a handler and back.

import { H3, type H3Event } from 'h3'
import { createListings } from '../billing/statement.ts'
import type { KeyFacts } from '../core/key.ts'
import { Problem } from '../core/problem.ts'
import type { Instant } from '../core/time.ts'
import type { Log } from '../log.ts'
import type { Store } from '../store/store.ts'
import { type Ignored, ignoredMembers, ignoredParameters, openAnswer, tellIgnored } from './answer-headers.ts'
import { type Admit, authenticate, createAdmission, createUseNotes, isUseStale } from './auth.ts'
import { type CallLine, createCallLog, durationSince } from './call-log.ts'
import { DOCS_PATHS, readDocs, SLASHED, TO_PAGE, wantsPage } from './docs/page.ts'
import { ERROR_HEADER, errorBody, INTERNAL_ERROR, Refusal, refusalFor } from './error-codes.ts'
import { getDescription } from './openapi/document.ts'
import { OPS_PATHS } from './ops/access.ts'
import { type Ops, sendOps } from './ops/endpoints.ts'
import { checkBody, flawOf, hasArrived, objectIn, readQuery, readText, writtenAs } from './request.ts'
import type { Call, Route, Services } from './route.ts'
import { decodeParams, routeFor, routesOver } from './routes.ts'
import type { SandboxDesk } from './sandbox.ts'
import {
  CALLS_PER_KEY_MAX,
  createOneAtATime,
  createOnlyOne,
  createRateLimit,
  createTurns,
  type Turn,
} from './turns.ts'

export type AppOptions = Omit<Services, 'store' | 'listings'> & {
  /** Without it, the sandbox has no routes. */
  sandbox?: SandboxDesk | null | undefined
  /** Null while the database is being opened: every call is then told to try again. */
  store: Store | null
  log: Log
  ops?: Ops
  /** Requests per second for each key; null for no limit. */
  rateLimit: number | null
  /** The most calls of a key at once. */
  callsPerKey?: number | undefined
}

export function createApp(options: AppOptions): H3 {
  const desk = createDesk(options)
  const answer: Answer = (event, routes, flaw) => answerCall(desk, event, { routes, flaw })
  // h3 itself refuses a path that is not validly encoded. It is answered like any other unknown path.
  const app = new H3({ silent: true, onError: (_, event) => answer(event, []) })
  app.use((event, next) => {
    const flaw = flawOf(event.req)
    return flaw ? answer(event, [], flaw) : next()
  })
  addPartnerApi(app, answer, routesOver(options.sandbox ?? null))
  addOperations(app, answer, options)
  addDocs(app, answer, options)
  app.all('/**', (event) => answer(event, []))
  return app
}

/** Answers a call by one of the routes of its path. Without a route, or with a flaw, the call is refused. */
type Answer = (event: H3Event, routes: readonly Route[], flaw?: Refusal) => Promise<string | Uint8Array>

function addPartnerApi(app: H3, answer: Answer, all: readonly Route[]): void {
  for (const [path, routes] of Map.groupBy([...all, getDescription], (route) => route.path)) {
    const isWritten = writtenAs(path)
    app.all(path, (event) => answer(event, isWritten(event) ? routes : []))
  }
}

function addOperations(app: H3, answer: Answer, { ops, log, machine }: AppOptions): void {
  for (const path of OPS_PATHS) {
    const isWritten = writtenAs(path)
    app.all(path, (event) => {
      const forOperators = isWritten(event) ? ops?.answer(event, path, 'api') : null
      return forOperators
        ? sendOps(event, path, { answer: forOperators, log, uuid: machine.uuid })
        : answer(event, [])
    })
  }
}

function addDocs(app: H3, answer: Answer, { machine }: AppOptions): void {
  const isSlashed = writtenAs(SLASHED.path)
  for (const path of DOCS_PATHS) {
    const isWritten = writtenAs(path)
    app.all(path, async (event) => {
      const isLed = isSlashed(event)
      if (!isLed && !isWritten(event)) return answer(event, [])
      if (event.req.method !== 'GET') return answer(event, [], NOT_GET)
      openAnswer(event, machine.uuid)
      if (isLed) return lead(event, SLASHED.to)
      const { headers, body } = await readDocs(path)
      setHeaders(event, headers)
      return body
    })
  }
  const isWritten = writtenAs('/')
  app.all('/', (event) => {
    if (!isWritten(event) || !wantsPage(event.req.method, event.req.headers.get('accept')))
      return answer(event, [])
    openAnswer(event, machine.uuid)
    return lead(event, TO_PAGE)
  })
}

function lead(event: H3Event, to: Record<string, string>): string {
  setHeaders(event, to)
  event.res.status = 302
  return ''
}

function setHeaders(event: H3Event, headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) event.res.headers.set(name, value)
}

const NOT_GET = new Refusal('method_not_allowed', 'Method Not Allowed', { allow: 'GET' })

/** Values shared by the calls of an app. */
type Desk = Omit<Services, 'store'> & {
  store: Store | null
  note: (line: CallLine, bug: unknown) => void
  limitRate: (keyId: string, now: Instant) => void
  takeTurn: (keyId: string) => Turn
  oneAtATime: ReturnType<typeof createOneAtATime>
  onlyOne: ReturnType<typeof createOnlyOne>
  noteUse: (store: Store, caller: KeyFacts) => void
  admit: Admit
}

function createDesk(options: AppOptions): Desk {
  const { store, machine, guard, send, log, ops, rateLimit, callsPerKey = CALLS_PER_KEY_MAX } = options
  const logCall = createCallLog(log)
  const note = (line: CallLine, bug: unknown): void => {
    logCall(line, bug)
    ops?.noteRequest(line)
  }
  return {
    store,
    machine,
    guard,
    send,
    listings: createListings(),
    note,
    limitRate: rateLimit === null ? () => {} : createRateLimit(rateLimit),
    takeTurn: createTurns(callsPerKey),
    oneAtATime: createOneAtATime(),
    onlyOne: createOnlyOne(),
    noteUse: createUseNotes(log),
    admit: createAdmission(log),
  }
}

/** The known facts about a call, for its line in the log, even when it is refused. */
type Trail = { caller: KeyFacts | null; turn: Turn | null; ignored: Ignored[] }

/** Handles one call: sends the result and logs it. */
async function answerCall(
  desk: Desk,
  event: H3Event,
  { routes, flaw }: { routes: readonly Route[]; flaw: Refusal | undefined },
): Promise<string | Uint8Array> {
  const started = performance.now()
  const requestId = openAnswer(event, desk.machine.uuid)
  const { headers } = event.res
  headers.set('content-type', 'application/json')
  const trail: Trail = { caller: null, turn: null, ignored: [] }
  const answered = flaw ? Promise.reject(flaw) : handleCall(desk, event, routes, trail)
  const outcome = await answered.catch(failedOutcome)
  trail.turn?.leave()
  setHeaders(event, outcome.headers)
  const ignored = tellIgnored(trail.ignored)
  if (ignored !== null) headers.set('x-ignored-fields', ignored)
  const line = {
    request_id: requestId,
    method: event.req.method,
    route: routes[0]?.path ?? null,
    partner_slug: trail.caller?.key.tenant.partnerSlug ?? null,
    environment: trail.caller?.key.tenant.environment ?? null,
    status: outcome.status,
    duration_ms: durationSince(started),
    ...(outcome.status !== 200 && { error_code: outcome.headers[ERROR_HEADER] ?? '' }),
    ...(ignored !== null && { ignored_fields: ignored }),
    ...(outcome.contentType !== undefined && { content_type: outcome.contentType }),
  }
  desk.note(line, outcome.bug)
  event.res.status = outcome.status
  return outcome.text
}

/** Authenticates the caller, reads the request, waits for its turn, and calls the route's handler. */
async function handleCall(
  desk: Desk,
  event: H3Event,
  routes: readonly Route[],
  trail: Trail,
): Promise<Outcome> {
  if (routes.some((candidate) => candidate.ready)) {
    return done(routeFor(event.req.method, routes).ready?.() ?? '')
  }
  const { store } = desk
  if (!store)
    throw new Refusal('starting', 'The database is being opened; try again.', { 'retry-after': '1' })
  const now = desk.machine.clock()
  const authorization = event.req.headers.get('authorization')
  const caller = await authenticate(authorization, { store, admit: desk.admit })
  const turn = admitInTurn(desk, caller, now, trail)
  if (isUseStale(caller, now)) desk.noteUse(store, caller)
  const route = routeFor(event.req.method, routes)
  if (route.keys === 'test' && caller.key.tenant.environment !== 'test')
    throw new Refusal('test_key_required', 'Only a test environment has a sandbox; send a test key.')
  if (event.url.search !== '') trail.ignored = ignoredParameters(route, event.url.searchParams)
  const query = route.query ? readQuery(event.url.searchParams, route.query) : undefined
  const isOnItsWay = route.body !== null && !hasArrived(event.req)
  const text = route.body && (await readText(event.req))
  const hasWaited = await turn.come()
  // Where the database is a file, from here on only finished work is awaited, so that the time of a call is measured as
  // one.
  const body = bodyOf(event, route, text, trail)
  // A sender may take any time for a body, and the key may have ended meanwhile.
  if (hasWaited || isOnItsWay) await authenticate(authorization, { store, admit: desk.admit, atOnce: true })
  const { machine, guard, send, listings } = desk
  const checked: Call<unknown> = {
    store,
    machine,
    guard,
    send,
    listings,
    caller,
    tenant: { ...caller.key.tenant, keyId: caller.key.keyId },
    params: decodeParams(event.context.params ?? {}),
    body,
    query,
    alone: (work) => desk.oneAtATime(caller.key.tenant.tenantId, work),
    once: (work) => desk.onlyOne(caller.key.tenant.tenantId, work),
    setHeader: (name, value) => event.res.headers.set(name, value),
  }
  return done(JSON.stringify(await route.handle(checked as Call<never, never>)))
}

/** The turn of a caller whose key is valid. Throws what `admit` throws, and a Refusal: 429. */
function admitInTurn(desk: Desk, caller: KeyFacts, now: Instant, trail: Trail): Turn {
  desk.admit(caller)
  trail.caller = caller
  desk.limitRate(caller.key.keyId, now)
  const turn = desk.takeTurn(caller.key.keyId)
  trail.turn = turn
  return turn
}

type Outcome = {
  status: number
  text: string | Uint8Array
  headers: Record<string, string>
  /** The error that made the call fail, if the caller did not cause it; else null. */
  bug: unknown
  contentType?: string | undefined
}

const done = (text: Outcome['text']): Outcome => ({ status: 200, text, headers: {}, bug: null })

/** Checks the body of a call, and notes which members are ignored, even when the rest is refused. */
function bodyOf(event: H3Event, route: Route, text: string | null, trail: Trail): unknown {
  if (route.body === null || text === null) return undefined
  const json = objectIn(text, event.req)
  trail.ignored = [...trail.ignored, ...ignoredMembers(route, json)]
  return checkBody(json, route.body)
}

function failedOutcome(error: unknown): Outcome {
  const given =
    error instanceof Refusal ? error : error instanceof Problem ? refusalFor(error) : INTERNAL_ERROR
  const { status, detail, headers, contentType } = given
  const isBug = given !== error && status >= 500
  return { status, text: errorBody(detail), headers, bug: isBug ? error : null, contentType }
}
