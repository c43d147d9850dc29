// Who calls: from the Authorization header to a partner and its environment, and calls whose key opens nothing.

import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type ApiKey,
  admit,
  isUsable,
  isWellFormedKey,
  KEY_USED_STEP_MS,
  type KeyFacts,
} from '../core/key.ts'
import { formatInstantOrNull, type Instant } from '../core/time.ts'
import { keyHash } from '../keys.ts'
import type { Log } from '../log.ts'
import type { KeyStore } from '../store/store.ts'
import { requestIdOf } from './answer-headers.ts'
import { type CallLine, durationSince } from './call-log.ts'
import { DOCS_PATHS } from './docs/page.ts'
import { errorBody, Refusal } from './error-codes.ts'
import { getDescription } from './openapi/document.ts'
import { OPS_PATHS } from './ops/access.ts'
import { isFramedInDoubt } from './request.ts'
import { ROUTES } from './routes.ts'

const HEADER = /^Bearer (\S+)$/

// Created once: collecting a stack for each would cost more than everything else such a call needs.
/** The header is missing or malformed. */
const NO_KEY = new Refusal('key_malformed', 'Expected Authorization: Bearer <key>')
/** There is no such key. */
const INVALID_KEY = new Refusal('key_invalid', 'Invalid API key.')

/** The key in a header, well formed or not; null when the header has none. */
const keyIn = (header: string | null): string | null => HEADER.exec(header ?? '')?.[1] ?? null

type Finding = { store: Pick<KeyStore, 'findKey'>; judge: Judge; atOnce?: boolean }

/** Resolves a key to its partner and environment. Throws a Refusal with 401, and what `judge` throws. */
export async function authenticate(
  header: string | null,
  { store, judge, atOnce = false }: Finding,
): Promise<KeyFacts> {
  const key = keyIn(header)
  if (key === null) throw NO_KEY
  const facts = isWellFormedKey(key) ? await store.findKey(keyHash(key), { atOnce }) : null
  if (facts === null) throw INVALID_KEY
  judge(facts)
  return facts
}

/** Admits a call, or throws what `admit` throws. */
export type Judge = (caller: KeyFacts) => void

/** How often calls with one key that has ended get a line: their sender decides how many there are. */
const ENDED_KEY_EVERY_MS = 60_000

/**
 * Admits calls, and says whose key has ended: its partner gets a 401 like any other, and asks the operator. Strangers
 * cause no such lines, because only a key that was issued can have ended.
 */
export function createJudge(log: Log): Judge {
  const lines = new Map<string, { at: Instant; unsaid: number }>()
  return (caller) => {
    const { key, now } = caller
    if (!isUsable(key, now)) note(key, now)
    admit(caller)
  }

  function note({ keyId, tenant, revokedAt, expiresAt }: ApiKey, now: Instant): void {
    const line = lines.get(keyId)
    if (line && Math.abs(now - line.at) < ENDED_KEY_EVERY_MS) {
      line.unsaid += 1
      return
    }
    lines.set(keyId, { at: now, unsaid: 0 })
    const { partnerSlug: partner_slug, environment } = tenant
    const ended = revokedAt ?? expiresAt
    const what = { key_id: keyId, partner_slug, environment, ended_at: formatInstantOrNull(ended) }
    const how = revokedAt === null ? 'has expired' : 'is revoked'
    log.warn({ ...what, calls: 1 + (line?.unsaid ?? 0) }, `a call with a key that ${how}`)
  }
}

/** Whether the key's last-used mark is old enough to be renewed. */
export const isUseStale = ({ key }: KeyFacts, now: Instant): boolean =>
  key.lastUsedAt === null || Math.abs(now - key.lastUsedAt) >= KEY_USED_STEP_MS

/** After a failure to note the use of a key, how long to wait before trying again. */
const NOTE_AGAIN_MS = 60_000

/** Notes the use of a key beside the call, not before its answer: a read must not wait for a write lock. */
export function createUseNotes(log: Log): (store: Pick<KeyStore, 'markKeyUsed'>, caller: KeyFacts) => void {
  /** The keys whose last use is being written: one write for each, however many calls come meanwhile. */
  const beingNoted = new Set<string>()
  return (store, { key: { keyId, tenant } }) => {
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

// The door: refuses a call with an invalid key before h3 handles it. A stranger decides how many such calls come, and
// partners wait behind each of them; a request and an answer of h3 take several times as long as Node's own.

export type Door = {
  /** Whether a call may go on; false when it has been answered. Never rejects. */
  knock: (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>
  /** The key of a call that went on; undefined if its caller is not known yet. */
  facts: (request: unknown) => KeyFacts | undefined
}
type Parts = {
  findKey: (sha256: string) => Promise<KeyFacts | null>
  uuid: () => string
  note: (line: CallLine) => void
}

/** A call that is not refused here is handled by the app, which refuses in the same words. So is every unusual call. */
export function createDoor({ findKey, uuid, note }: Parts): Door {
  const callers = new WeakMap<object, KeyFacts>()

  function refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): false {
    const started = performance.now()
    const { url = '', method = '', headers } = request
    const requestId = requestIdOf(String(headers['x-request-id'] ?? ''), uuid)
    const text = errorBody(refusal.detail)
    response
      .writeHead(refusal.status, {
        'x-request-id': requestId,
        'cache-control': 'no-store',
        'content-type': 'application/json',
        ...refusal.headers,
        'content-length': text.length,
      })
      .end(text)
    note({
      request_id: requestId,
      method,
      route: routeOf(pathOf(url)),
      partner_slug: null,
      environment: null,
      status: refusal.status,
      duration_ms: durationSince(started),
      error_code: refusal.code,
    })
    return false
  }

  return {
    facts: (request) => (request instanceof Object ? callers.get(request) : undefined),
    knock(request, response) {
      if (!isPlain(request)) return true
      const key = keyIn(request.headers.authorization ?? null)
      if (key === null) return refuse(request, response, NO_KEY)
      if (!isWellFormedKey(key)) return refuse(request, response, INVALID_KEY)
      return findKey(keyHash(key)).then(
        (facts) => {
          if (facts === null) return refuse(request, response, INVALID_KEY)
          callers.set(request, facts)
          return true
        },
        // The app meets a database that cannot be read again, and has the message for it.
        () => true,
      )
    },
  }
}

const OPEN_PATHS = new Set<string>([getDescription.path, ...OPS_PATHS, ...DOCS_PATHS])
const METHODS = new Set(['GET', 'POST', 'PATCH', 'DELETE', 'PUT'])
/** A path that every parser reads the same way: no escape, no backslash, no dot segment. */
const PLAIN_PATH = /^(\/(?!\.{1,2}(\/|$))[\w.~-]+)+$/
/** Headers that a plain request has at most once. */
const AT_MOST_ONE = ['host', 'authorization', 'x-request-id']

/** Whether nothing but the key of a call needs checking before it is refused. */
function isPlain(request: IncomingMessage): boolean {
  const { url = '', method = '', headers, rawHeaders } = request
  const path = pathOf(url)
  if (!METHODS.has(method) || !PLAIN_PATH.test(path) || OPEN_PATHS.has(path)) return false
  if (headers.host === undefined || headers.expect !== undefined || isFramedInDoubt(request)) return false
  return AT_MOST_ONE.every((name) => countOf(rawHeaders, name) <= 1)
}

/** Names and values alternate. Most names differ in length already. */
function countOf(rawHeaders: readonly string[], name: string): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] as string
    if (given.length === name.length && given.toLowerCase() === name) count += 1
  }
  return count
}

function pathOf(url: string): string {
  const query = url.indexOf('?')
  return query < 0 ? url : url.slice(0, query)
}

const FIXED = new Set(ROUTES.map(({ path }) => path).filter((path) => !path.includes('/:')))
const WITH_IDS = [...new Set(ROUTES.map(({ path }) => path))]
  .filter((path) => path.includes('/:'))
  .map((path) => ({ path, pattern: new RegExp(`^${path.replace(/:\w+/g, '[^/]+')}$`) }))

/** The pattern of a route, for a path that is plain; null for one that has no route. */
const routeOf = (path: string): string | null =>
  FIXED.has(path) ? path : (WITH_IDS.find(({ pattern }) => pattern.test(path))?.path ?? null)
