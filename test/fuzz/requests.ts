// From a step to the bytes of one request: known values are filled in, and then the mutations spoil it.

import assert from 'node:assert/strict'
import fc from 'fast-check'
import { DAY_MS, formatInstant, type Instant, monthOf, plus } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import { DESCRIPTION, type DescribedOperation } from '../openapi/described.ts'
import type { Seat } from './fuzz.ts'
import {
  hostileBytes,
  hostileHeader,
  hostileJson,
  hostileQuery,
  hostileSegment,
  strangeName,
} from './hostile.ts'

/** A request to send, and the facts that the oracle needs about it. */
export type Request = {
  method: string
  target: string
  headers: (readonly [name: string, value: string])[]
  body: Uint8Array | null
  stranger: Stranger | null
  requestId: string
  /** No mutation was applied. */
  isPlain: boolean
}
type Known = (noun: Noun, at: number) => string
type Draft = {
  method: string
  segments: string[]
  /** Index of the segment that is an id, and reaches further than the router. */
  idAt: number | null
  query: string | null
  members: { name: string; text: string }[] | null
  headers: (readonly [name: string, value: string])[]
  stranger: Stranger | null
  /** Mutations of the body's bytes, once there are any. */
  spoil: ((bytes: Uint8Array) => Uint8Array)[]
}

export function requestOf(
  step: CallStep,
  { known, requestId }: { known: Known; requestId: string },
): Request {
  const draft = draftOf(step, known)
  for (const mutation of step.mutations) mutate(draft, mutation)
  const { method, segments, query, headers, stranger, spoil } = draft
  const written = draft.members && Buffer.from(objectOf(draft.members))
  const body = spoil.reduce((bytes: Uint8Array | null, change) => change(bytes ?? new Uint8Array()), written)
  return {
    method,
    target: segments.join('/') + (query === null ? '' : `?${query}`),
    headers: [['X-Request-Id', requestId], ...headers],
    body,
    stranger,
    requestId,
    isPlain: step.mutations.length === 0,
  }
}

function draftOf({ call }: CallStep, known: Known): Draft {
  const operation = OPERATIONS[call.operation]
  if (!operation) throw new Error(`there is no operation ${call.operation}`)
  const textOf = (value: Source) =>
    'text' in value ? value.text : JSON.stringify(known(value.known, value.at))
  const plainOf = (value: Source) => String(JSON.parse(textOf(value))).toWellFormed()
  const inPath = new Map(
    call.path.map(({ name, value }) => [`{${name}}`, encodeURIComponent(plainOf(value))]),
  )
  const query = call.query.map(({ name, value }) => `${name}=${encodeURIComponent(plainOf(value))}`)
  const parts = operation.template.split('/')
  const idAt = parts.findIndex((part) => part.startsWith('{'))
  return {
    method: operation.method,
    segments: parts.map((part) => inPath.get(part) ?? part),
    idAt: idAt < 0 ? null : idAt,
    query: query.length === 0 ? null : query.join('&'),
    members: call.body?.map(({ name, value }) => ({ name, text: textOf(value) })) ?? null,
    headers: [],
    stranger: null,
    spoil: [],
  }
}

const objectOf = (members: { name: string; text: string }[]): string =>
  `{${members.map(({ name, text }) => `${JSON.stringify(name)}:${text}`).join(',')}}`

function mutate(draft: Draft, mutation: Mutation): void {
  const members = draft.members ?? []
  const around = <T>(list: readonly T[], at: number): number => (list.length === 0 ? 0 : at % list.length)
  switch (mutation.kind) {
    case 'drop':
      return void members.splice(around(members, mutation.at), 1)
    case 'value':
      for (const member of members.slice(around(members, mutation.at)).slice(0, 1))
        member.text = mutation.json
      return
    case 'add':
      draft.members = members.toSpliced(around(members, mutation.at), 0, {
        name: mutation.name,
        text: mutation.json,
      })
      return
    case 'repeat': {
      const name = members[around(members, mutation.at)]?.name ?? 'status'
      const again = { name, text: mutation.json }
      draft.members = mutation.isFirst ? [again, ...members] : [...members, again]
      return
    }
    case 'cut':
      return void draft.spoil.push((bytes) => bytes.slice(0, around([...bytes], mutation.at)))
    case 'insert':
      return void draft.spoil.push((bytes) => {
        const at = around([...bytes], mutation.at)
        return Buffer.concat([bytes.slice(0, at), mutation.bytes, bytes.slice(at)])
      })
    case 'body':
      return void draft.spoil.push(() => Buffer.from(mutation.json))
    case 'header':
      return void draft.headers.push(mutation.line)
    case 'segment':
      draft.segments[draft.idAt ?? 1 + around(draft.segments.slice(1), mutation.at)] = mutation.segment
      return
    case 'query':
      draft.query = mutation.query
      return
    case 'method':
      draft.method = mutation.method
      return
    case 'key':
      draft.stranger = mutation.key
  }
}

/** The bytes, with the given key. */
export function bytesOf(
  { method, target, headers, body }: Request,
  authorization: string | null,
): Uint8Array {
  const head = [
    `${method} ${lineSafe(target)} HTTP/1.1`,
    'Host: 127.0.0.1',
    ...(authorization === null ? [] : [`Authorization: ${authorization}`]),
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(body === null ? [] : [`Content-Length: ${body.length}`]),
    'Connection: close',
  ]
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'), body ?? new Uint8Array()])
}

/** A target ends at the first blank: characters that a request line cannot hold are left to the fuzzer of bytes. */
const lineSafe = (target: string): string => target.replace(/[^\x21-\x7e]/g, '')

// Requests that the API description allows, generated from the description itself: every addition to it is fuzzed from
// then on.

/** A value named by an earlier answer, or a name of a small pool: it is chosen when the request is sent. */
type Noun = 'user' | 'plan' | 'order' | 'execution' | 'amount' | 'cursor' | 'month' | 'webhook'
/** A single value: its JSON text, or a value known by then. */
export type Source = { text: string } | { known: Noun; at: number }
export type Member = { name: string; value: Source }
type Parameters = { name: string; value: Source }[]

type Call = { operation: number; path: Parameters; query: Parameters; body: Member[] | null }

type Schema = {
  $ref?: string
  type?: string | string[]
  oneOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  enum?: unknown[]
  examples?: unknown[]
  pattern?: string
  format?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
}
type Parameter = {
  name: string
  in: 'path' | 'query' | 'header'
  required: boolean
  schema: Schema
  example?: unknown
}
type Operation = DescribedOperation & {
  method: string
  template: string
  parameters: Parameter[]
  /** Every name that an error about a request may contain. */
  fields: Set<string>
}

/** The values that a request takes from earlier answers, by the name of the field. */
const NOUNS: Record<string, Noun> = {
  partner_user_id: 'user',
  partner_plan_id: 'plan',
  partner_order_id: 'order',
  execution_id: 'execution',
  usd_amount: 'amount',
  cursor: 'cursor',
  month: 'month',
  url: 'webhook',
}

export const OPERATIONS: readonly Operation[] = Object.entries(DESCRIPTION.paths).flatMap(
  ([template, operations]) =>
    Object.entries(operations).map(([method, operation]) => {
      const { parameters } = operation as DescribedOperation & { parameters: Parameter[] }
      const inBody = bodiesOf(operation).flatMap(({ properties = {} }) => Object.keys(properties))
      const fields = new Set([...parameters.map(({ name }) => name), ...inBody])
      return { ...operation, method: method.toUpperCase(), template, parameters, fields }
    }),
)

/** The shapes a body may have: none, one, or one of several. */
function bodiesOf({ requestBody }: DescribedOperation): Schema[] {
  if (!requestBody) return []
  const schema = dereference(requestBody.content['application/json'].schema)
  return schema.oneOf ? schema.oneOf.map(dereference) : [schema]
}

function dereference(schema: Schema): Schema {
  if (schema.$ref === undefined) return schema
  const found = DESCRIPTION.components.schemas[schema.$ref.split('/').at(-1) ?? '']
  assert.ok(found, schema.$ref)
  return found as Schema
}

/** Deep operations are called more often. */
const weightOf = ({ operationId }: Operation): number =>
  ({ confirmExecution: 8, putPlan: 5, linkUser: 4, pollDue: 4, setUserStatus: 2 })[operationId] ?? 1

function callOf(operation: Operation, at: number): fc.Arbitrary<Call> {
  const shapes = bodiesOf(operation).map(bodyOf)
  const given = (place: string) => operation.parameters.filter((parameter) => parameter.in === place)
  return fc.record({
    operation: fc.constant(at),
    path: parametersOf(given('path')),
    query: parametersOf(given('query')),
    body: shapes.length === 0 ? fc.constant(null) : fc.oneof(...shapes),
  })
}

const parametersOf = (parameters: Parameter[]): fc.Arbitrary<Parameters> =>
  membersOf(
    parameters.map(({ name, schema, required, example }) => ({
      name,
      schema: { ...schema, ...(example !== undefined && { examples: [example] }) },
      required,
    })),
  )

const bodyOf = ({ properties = {}, required = [] }: Schema): fc.Arbitrary<Member[]> =>
  membersOf(
    Object.entries(properties).map(([name, schema]) => ({ name, schema, required: required.includes(name) })),
  )

function membersOf(fields: { name: string; schema: Schema; required: boolean }[]): fc.Arbitrary<Member[]> {
  const each = fields.map(({ name, schema, required }) => {
    const member = valueFor(name, schema).map((value) => ({ name, value }))
    return required ? member : fc.option(member, { nil: null })
  })
  return fc.tuple(...each).map((members) => members.filter((member) => member !== null))
}

/** A value of a field: a known one, an example, or anything that the schema allows. */
function valueFor(name: string, schema: Schema): fc.Arbitrary<Source> {
  const noun = NOUNS[name]
  const json = allowedBy(schema).map((value) => ({ text: JSON.stringify(value) }))
  const examples = (schema.examples ?? []).map((value) => fc.constant({ text: JSON.stringify(value) }))
  const described = fc.oneof(
    { arbitrary: json, weight: 1 },
    ...examples.map((arbitrary) => ({ arbitrary, weight: 4 })),
  )
  if (noun === undefined) return described
  const known = fc.nat({ max: 11 }).map((at) => ({ known: noun, at }))
  return fc.oneof(
    // Known cursors may be those of another list; the example is one of this list.
    { arbitrary: known, weight: noun === 'cursor' ? 1 : 15 },
    { arbitrary: described, weight: noun === 'webhook' ? 0 : 1 },
  )
}

function allowedBy(schema: Schema): fc.Arbitrary<unknown> {
  if (Array.isArray(schema.type)) {
    return fc.oneof(
      ...schema.type.map((type) => (type === 'null' ? fc.constant(null) : allowedBy({ ...schema, type }))),
    )
  }
  if (schema.enum) return fc.constantFrom(...schema.enum.filter((value) => value !== null))
  if (schema.type === 'boolean') return fc.boolean()
  if (schema.type === 'integer')
    return fc.integer({ min: schema.minimum ?? 0, max: schema.maximum ?? 1_000_000 })
  assert.equal(schema.type, 'string', JSON.stringify(schema))
  const pattern = new RegExp(schema.pattern ?? '', 'u')
  if (!pattern.test('é')) return fc.stringMatching(pattern)
  if (schema.format === 'date-time') return anyInstant
  const { minLength = 0 } = schema
  // A text limited only by the size of the body would make a body that is too large.
  const maxLength = Math.min(schema.maxLength ?? TEXT_MAX, TEXT_MAX)
  return fc.oneof(
    fc
      .string({ unit: 'grapheme', minLength, maxLength: Math.min(maxLength, 40) })
      .filter((text) => pattern.test(text)),
    fc
      .integer({ min: Math.max(minLength, maxLength - 2), max: maxLength })
      .map((length) => 'é'.repeat(length)),
  )
}

const TEXT_MAX = 4_000

const anyInstant = fc
  .integer({ min: -1_960 * 365 * DAY_MS, max: 8_000 * 365 * DAY_MS })
  .map((ms) => formatInstant(ms as Instant))

/** Any call of any operation, as the description allows it. */
const anyCall: fc.Arbitrary<Call> = fc.oneof(
  ...OPERATIONS.map((operation, at) => ({ arbitrary: callOf(operation, at), weight: weightOf(operation) })),
)

// A tenant's knowledge from its answers, and the ids that it uses again and again.

type Execution = { id: string; amount: string }
export type World = Seat & {
  executions: Execution[]
  cursors: string[]
  /** Begins the names of one play, so that a repeated play finds nothing of the one before. */
  prefix: string
}

const EXECUTIONS_MAX = 50
const CURSORS_MAX = 5
/** The number of users in a play. */
export const USERS_PER_PLAY = 4
const NO_EXECUTION: Execution = { id: `exec_${'0'.repeat(32)}`, amount: '10.00' }
/** Endings that make ids of every kind. */
const ENDINGS = ['1', '2', '3', '/4', '%35', '6 é\u{1f680}', "'7", '..', '=8', '"9', '\\10', '?a=b#c']
const WEBHOOKS = [
  ...['https://127.0.0.1:1/', 'https://127.0.0.2:1/a?b=c', 'https://0x7f.1:1/'],
  `https://127.0.0.1:1/${'x'.repeat(2_000)}`,
  ...['https://10.0.0.1/', 'https://[::1]/', 'https://169.254.169.254/latest', 'http://127.0.0.1/'],
  'https://[::ffff:7f00:1]/',
]

export const worldOf = (seat: Seat, play: number): World => ({
  ...seat,
  executions: [],
  cursors: [],
  prefix: `${seat.tag}-${play}-`,
})

/** Gives a request its values. An amount belongs to the execution chosen just before. */
export function knowledgeOf(world: World, executions = world.executions): (noun: Noun, at: number) => string {
  let execution = executions.at(-1) ?? NO_EXECUTION
  return (noun, at) => {
    if (noun === 'execution') {
      execution = executions.at(-1 - (at % Math.max(1, executions.length))) ?? NO_EXECUTION
      return execution.id
    }
    if (noun === 'amount') return amountFor(execution.amount, at)
    if (noun === 'cursor')
      return world.cursors[at % Math.max(1, world.cursors.length)] ?? 'dXNlciAxNzY5OTA0MDAwMDAwIHVzZXItMQ'
    if (noun === 'month') return monthOf(plus(machine.clock(), (at - 6) * 15 * 86_400_000))
    if (noun === 'webhook') return WEBHOOKS[at % WEBHOOKS.length] ?? ''
    const few = { user: USERS_PER_PLAY, plan: 6, order: 12 }[noun]
    return `${world.prefix}${noun}-${ENDINGS[at % few]}`
  }
}

/** Mostly the reserved amount; else a part of it, or a little more. */
function amountFor(reserved: string, at: number): string {
  if (at < 7) return reserved
  return [`${reserved}000000`, '0.01', '0.000000005', `9${reserved}`, '1.005'][at - 7] ?? reserved
}

/** Stores values that later requests may need. */
export function learn(world: World, body: unknown): void {
  if (Array.isArray(body)) {
    const due = body as { execution_id: string; amount_usd: string }[]
    world.executions.push(
      ...due.map(({ execution_id, amount_usd }) => ({ id: execution_id, amount: amount_usd })),
    )
    world.executions.splice(0, world.executions.length - EXECUTIONS_MAX)
  } else if (
    typeof body === 'object' &&
    body !== null &&
    'next_cursor' in body &&
    typeof body.next_cursor === 'string'
  ) {
    world.cursors.unshift(body.next_cursor)
    world.cursors.splice(CURSORS_MAX)
  }
}

// The steps of a fuzzer: valid calls, calls spoiled in a few places, and time that passes.

/** Changes to a request before it is sent. Places wrap around, so that every number is valid. */
type Mutation =
  | { kind: 'drop'; at: number }
  | { kind: 'value'; at: number; json: string }
  | { kind: 'add'; at: number; name: string; json: string }
  /** A duplicate of a member with another value, before the first one or after the last. */
  | { kind: 'repeat'; at: number; json: string; isFirst: boolean }
  | { kind: 'cut'; at: number }
  | { kind: 'insert'; at: number; bytes: Uint8Array }
  | { kind: 'body'; json: string }
  | { kind: 'header'; line: readonly [name: string, value: string] }
  | { kind: 'segment'; at: number; segment: string }
  | { kind: 'query'; query: string }
  | { kind: 'method'; method: string }
  | { kind: 'key'; key: Stranger }

/** The kind of key, other than those of the two tenants that play. */
const STRANGERS = ['none', 'malformed', 'unknown', 'revoked', 'disabled'] as const
export type Stranger = (typeof STRANGERS)[number]

export type CallStep = {
  kind: 'call'
  call: Call
  isLive: boolean
  /** Takes executions from another partner's answers. */
  isForeign: boolean
  mutations: Mutation[]
  /** The number of times it is sent. */
  times: number
}
export type Step =
  | CallStep
  /** Fires a tranche of a plan of the test environment. */
  | { kind: 'fire'; plan: number }
  /** Advances the test environment by so many hours. */
  | { kind: 'advance'; hours: number; priceUsd: number }

const place = fc.nat({ max: 60_000 })
const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'QUERY']

const one = <const Kind extends string>(kind: Kind): fc.Arbitrary<Kind> => fc.constant(kind)

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ kind: one('drop'), at: place }),
  { arbitrary: fc.record({ kind: one('value'), at: place, json: hostileJson }), weight: 6 },
  fc.record({ kind: one('add'), at: place, name: strangeName, json: hostileJson }),
  fc.record({ kind: one('repeat'), at: place, json: hostileJson, isFirst: fc.boolean() }),
  fc.record({ kind: one('cut'), at: place }),
  fc.record({ kind: one('insert'), at: place, bytes: hostileBytes }),
  fc.record({ kind: one('body'), json: hostileJson }),
  { arbitrary: fc.record({ kind: one('header'), line: hostileHeader }), weight: 2 },
  { arbitrary: fc.record({ kind: one('segment'), at: place, segment: hostileSegment }), weight: 2 },
  { arbitrary: fc.record({ kind: one('query'), query: hostileQuery }), weight: 2 },
  fc.record({ kind: one('method'), method: fc.constantFrom(...METHODS) }),
  fc.record({ kind: one('key'), key: fc.constantFrom(...STRANGERS) }),
)

const callStep: fc.Arbitrary<CallStep> = fc.record({
  kind: one('call'),
  call: anyCall,
  isLive: fc.boolean(),
  isForeign: fc.integer({ min: 0, max: 15 }).map((n) => n === 15),
  mutations: fc.oneof(
    { arbitrary: fc.constant<Mutation[]>([]), weight: 3 },
    { arbitrary: fc.array(mutation, { minLength: 1, maxLength: 3 }), weight: 2 },
  ),
  times: fc.constantFrom(1, 1, 2, 3),
})

const step: fc.Arbitrary<Step> = fc.oneof(
  { arbitrary: callStep, weight: 60 },
  { arbitrary: fc.record({ kind: one('fire'), plan: fc.nat({ max: 11 }) }), weight: 4 },
  {
    arbitrary: fc.record({
      kind: one('advance'),
      hours: fc.integer({ min: 1, max: 40 }),
      priceUsd: fc.integer({ min: 1, max: 100_000 }),
    }),
    weight: 1,
  },
)

/** A play: a failing one is shrunk to the fewest and simplest steps that still fail. */
export const anyPlay: fc.Arbitrary<Step[]> = fc.array(step, { minLength: 1, maxLength: 150, size: 'max' })
