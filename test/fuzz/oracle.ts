// Whether the service may give an answer: described, well-formed, and without data of another tenant.

import assert from 'node:assert/strict'
import type { RawAnswer } from '../http/raw.ts'
import { assertAccepted, assertDescribed, operationAt } from '../openapi/described.ts'
import type { Seat } from './fuzz.ts'
import { MARK } from './hostile.ts'
import { OPERATIONS, type Request } from './requests.ts'

const SANE_ID = /^[A-Za-z0-9._-]{1,128}$/
/** Refused before any route: the head of the request is to blame, not the call. */
const BEFORE_ANY_ROUTE = [417, 431]
/** Characters that JSON can only write as an escape, other than a line break or a tab. */
const UNSHOWABLE = /(?<!\\)(?:\\\\)*\\(?:u00|ud[89a-f]|[bf])/i
const TAG = /zt\d+(?:test|live)(?=-)/g
const LOCATION_MAX = 2

/** Throws when the answer is not allowed for this request. Returns its JSON. */
export function judge(request: Request, answer: RawAnswer, owners: Owners, seat: Seat): unknown {
  const { status } = answer
  const text = Buffer.from(answer.body, 'latin1').toString()
  const headers = new Headers([...answer.headers])
  assert.ok(status >= 200 && status < 500, `it is answered ${status}`)
  assert.equal(headers.get('cache-control'), 'no-store')
  assert.equal(headers.get('content-type'), 'application/json')
  const given = request.headers.filter(([name]) => name === 'X-Request-Id')
  const id = headers.get('x-request-id') ?? ''
  assert.match(id, SANE_ID)
  if (given.length === 1 && status !== 431)
    assert.equal(id, request.requestId, 'it is the answer to this call')
  if (request.method === 'HEAD') return null
  const body: unknown = JSON.parse(text)
  if (BEFORE_ANY_ROUTE.includes(status)) return body
  if (request.stranger)
    assert.equal(status, request.stranger === 'disabled' ? 403 : 401, 'a stranger is refused')
  else assert.notEqual(status, 401, 'the key is good')
  holdToDescription(request, { status, headers, body })
  if (status === 422) assertSaysNothingOfInput(request, body)
  if (request.isPlain)
    assert.ok(![400, 405, 413, 415].includes(status) || isRule(status, body), `it is well formed`)
  assert.ok(!UNSHOWABLE.test(text), 'text without control characters and half surrogate pairs')
  owners.hold(request, text, seat)
  return body
}

function holdToDescription(
  request: Request,
  answer: { status: number; headers: Headers; body: unknown },
): void {
  const { method, target } = request
  const { status } = answer
  const path = target.split('?')[0] ?? ''
  if (operationAt(method, path)) assertDescribed(method, path, answer)
  else assert.ok([401, 403, 404, 405].includes(status), `no operation, and answered ${status}`)
  if (status !== 200 || !request.body || !operationAt(method, path)?.requestBody) return
  const sent = JSON.parse(new TextDecoder().decode(request.body))
  assertAccepted(method, path, sent)
  for (const [name, value] of Object.entries(answer.body as object))
    if (name.endsWith('_id') && Object.hasOwn(sent, name))
      assert.equal(value, sent[name], `${name} is as sent`)
}

/** A rule was broken, not the form: refused webhooks, amounts above a reservation, no consent. */
const isRule = (status: number, body: unknown): boolean =>
  status === 400 &&
  typeof body === 'object' &&
  body !== null &&
  'detail' in body &&
  body.detail !== 'Request body is not valid UTF-8.'

type Complaint = { type: string; loc: (string | number)[]; msg: string }

/** A location is one of the description, and no input is sent back. */
function assertSaysNothingOfInput({ method, target }: Request, body: unknown): void {
  const operation = operationOf(method, target)
  const { detail } = body as { detail: Complaint[] }
  assert.ok(!JSON.stringify(detail).includes(MARK), 'a complaint repeats what was sent')
  for (const { loc } of detail) {
    assert.ok(loc.length <= LOCATION_MAX && ['body', 'query'].includes(String(loc[0])), JSON.stringify(loc))
    const [, field] = loc
    if (typeof field === 'string') assert.ok(operation?.fields.has(field), `${field} is a field`)
  }
}

function operationOf(method: string, target: string) {
  const found = operationAt(method, target)
  return OPERATIONS.find(({ operationId }) => operationId === found?.operationId)
}

export type Owners = { hold: (request: Request, body: string, seat: Seat) => void }

/** The execution that a test of a webhook names: it belongs to nobody. */
const NO_EXECUTION = `exec_${'0'.repeat(32)}`

/** Tracks the owner of every execution; throws when an answer names another tenant's, unless the request did. */
export function createOwners(): Owners {
  const owners = new Map<string, string>()
  return {
    hold(request, body, { tag, tenant }) {
      const asked = `${decodeLoosely(request.target)} ${request.body ? Buffer.from(request.body) : ''}`
      const isOthers = (named: string, owner: string): boolean => owner !== tag && !asked.includes(named)
      for (const [id] of body.matchAll(/exec_[0-9a-f]{32}/g)) {
        if (id === NO_EXECUTION) continue
        const owner = owners.get(id) ?? tag
        assert.ok(!isOthers(id, owner), `${id} is of ${owner}`)
        if (!asked.includes(id)) owners.set(id, tag)
      }
      for (const [named] of body.matchAll(TAG))
        assert.ok(!isOthers(named, named), `${named} is another tenant`)
      const [, slug] = /"partner_slug":"([^"]*)"/.exec(body) ?? []
      assert.ok(slug === undefined || slug === tenant.partnerSlug, `the answer is for ${slug}`)
    },
  }
}

function decodeLoosely(target: string): string {
  try {
    return decodeURIComponent(target)
  } catch {
    return target
  }
}
