// The HTTP service: its paths, and the steps that every call goes through on its way to a handler and back.

import { H3, type H3Event } from 'h3'
import { createListings } from '../billing/statement.ts'
import type { KeyFacts } from '../core/key.ts'
import { Problem } from '../core/problem.ts'
import { SECOND_MS } from '../core/time.ts'
import type { Log } from '../log.ts'
import type { Store } from '../store/store.ts'
import { type Ignored, ignoredMembers, ignoredParameters, openAnswer, tellIgnored } from './answer-headers.ts'
import { authenticate, createAdmission, createUseNotes, isUseStale } from './auth.ts'
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
  sandbox?: SandboxDesk | null | undefined
  /** Null while the database is being opened: every call is then told to try again. */
  store: Store | null
  log: Log
  ops?: Ops
  rateLimit: number | null
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
  const partnerApi = [...routesOver(options.sandbox ?? null), getDescription]
  for (const [path, routes] of Map.groupBy(partnerApi, (route) => route.path))
    onPath(app, path, { answer, handle: (event) => answer(event, routes) })
  addOperations(app, answer, options)
  addDocs(app, answer, options)
  app.all('/**', (event) => answer(event, []))
  return app
}

/** Answers a call by one of the routes of its path. Without a route, or with a flaw, the call is refused. */
type Answer = (event: H3Event, routes: readonly Route[], flaw?: Refusal) => Promise<string | Uint8Array>

type Handling = { answer: Answer; handle: (event: H3Event) => unknown }

/** Handles calls of a path as it is written; however else the router comes to it, the path is unknown. */
function onPath(app: H3, path: string, { answer, handle }: Handling): void {
  const isWritten = writtenAs(path)
  app.all(path, (event) => (isWritten(event) ? handle(event) : answer(event, [])))
}

function addOperations(app: H3, answer: Answer, { ops, log, machine }: AppOptions): void {
  for (const path of OPS_PATHS) {
    const handle = (event: H3Event) => {
      const forOperators = ops?.answer(event, path, 'api')
      return forOperators
        ? sendOps(event, path, { answer: forOperators, log, uuid: machine.uuid })
        : answer(event, [])
    }
    onPath(app, path, { answer, handle })
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
  const handle = (event: H3Event) => {
    if (!wantsPage(event.req.method, event.req.headers.get('accept'))) return answer(event, [])
    openAnswer(event, machine.uuid)
    return lead(event, TO_PAGE)
  }
  onPath(app, '/', { answer, handle })
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

type Desk = ReturnType<typeof createDesk>

/** State shared by the calls of an app. */
function createDesk(options: AppOptions) {
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
    limitRate: rateLimit === null ? null : createRateLimit(rateLimit),
    takeTurn: createTurns(callsPerKey),
    oneAtATime: createOneAtATime(),
    onlyOne: createOnlyOne(),
    noteUse: createUseNotes(log),
    admit: createAdmission(log),
  }
}

/** The known facts about a call, for its line in the log, even when it is refused. */
type Trail = { caller: KeyFacts | null; turn: Turn | null; ignored: Ignored[] }

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
    duration_ms: Math.round((performance.now() - started) * 100) / 100,
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
  if (routes.some((candidate) => candidate.ready))
    return done(routeFor(event.req.method, routes).ready?.() ?? '')
  const { store } = desk
  if (!store)
    throw new Refusal('starting', 'The database is being opened; try again.', { 'retry-after': '1' })
  const now = desk.machine.clock()
  const authorization = event.req.headers.get('authorization')
  const caller = await authenticate(authorization, { store, admit: desk.admit })
  trail.caller = caller
  desk.limitRate?.(caller.key.keyId, now)
  const turn = desk.takeTurn(caller.key.keyId)
  trail.turn = turn
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

// The log of calls: one line for each call with a key, under the id in its answer. Calls without a key, and errors that
// repeat, are limited to as many lines as a person can use, because a stranger decides how many there are.

/** How many calls refused without a known key are logged each second. */
export const KEYLESS_LINES_MAX = 10
/** How long an error that recurs is logged without its stack. */
const STACK_EVERY_MS = 60_000
/** How many different errors are remembered; a larger number counts as a flood too. */
const ERRORS_MAX = 100

export type CallLine = {
  request_id: string
  method: string
  /** The route's pattern; null for a path that has no route. */
  route: string | null
  /** Null for a call without a known key. */
  partner_slug: string | null
  environment: string | null
  status: number
  duration_ms: number
  /** The code of the refusal in the answer's header; absent for a call that was not refused. */
  error_code?: string
  /** The fields that its route does not know, as the header of its answer names them. */
  ignored_fields?: string
  /** The media type that its client gave for a body that is not JSON. */
  content_type?: string
}

/** `bug` is the error that made a call fail, if the caller did not cause it; else null. */
export function createCallLog(log: Log): (line: CallLine, bug: unknown) => void {
  const stacks = new Map<string, number>()
  let keyless = 0
  let saidGone = false

  /** Counts a call without a key; false when this second has had its lines. */
  function hasLine(): boolean {
    keyless += 1
    if (keyless === 1) setTimeout(sumUp, SECOND_MS).unref()
    return keyless <= KEYLESS_LINES_MAX
  }

  function sumUp(): void {
    const unsaid = keyless - KEYLESS_LINES_MAX
    keyless = 0
    if (unsaid > 0) log.warn({ calls: unsaid }, 'more refused calls, not logged one by one')
  }

  function hasStack(error: string): boolean {
    const now = performance.now()
    if (now - (stacks.get(error) ?? Number.NEGATIVE_INFINITY) < STACK_EVERY_MS) return false
    if (stacks.size >= ERRORS_MAX) stacks.clear()
    stacks.set(error, now)
    return true
  }

  return (line, bug) => {
    if (bug instanceof Problem && bug.code === 'database_gone') {
      if (!saidGone)
        log.error({ ...line, err: bug }, 'the database is gone: every call is refused from now on')
      else if (hasLine()) log.info(line, 'request')
      saidGone = true
    } else if (bug instanceof Problem) {
      log.error({ ...line, error: bug.message }, 'request failed')
    } else if (bug) {
      const error = String(bug)
      log.error({ ...line, ...(hasStack(error) ? { err: bug } : { error }) }, 'request failed')
    } else if (line.partner_slug !== null || hasLine()) log.info(line, 'request')
  }
}
