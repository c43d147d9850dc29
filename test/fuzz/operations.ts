// Requests that the API description allows, made from the description itself: whatever is added to it is fuzzed from
// then on.

import assert from 'node:assert/strict'
import fc from 'fast-check'
import { DAY_MS, formatInstant, type Instant } from '../../src/core/time.ts'
import { DESCRIPTION, type DescribedOperation } from '../openapi/described.ts'

/** What an answer has named before, or a name of a small pool: it is chosen when the request is sent. */
export type Noun = 'user' | 'plan' | 'order' | 'execution' | 'amount' | 'cursor' | 'month' | 'webhook'
/** One value: the JSON text of it, or what the world knows by then. */
export type Source = { text: string } | { known: Noun; at: number }
export type Member = { name: string; value: Source }
export type Parameters = { name: string; value: Source }[]

export type Call = { operation: number; path: Parameters; query: Parameters; body: Member[] | null }

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
export type Operation = DescribedOperation & {
  method: string
  template: string
  parameters: Parameter[]
  /** Every name that a complaint about a request may contain. */
  fields: Set<string>
}

/** Which values a request takes from answers before it, by the name of the field. */
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

/** What is deep is reached more often. */
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

/** A value of a field: what the world knows, an example, or anything that the schema allows. */
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
    // Cursors that were learnt may be those of another list; the example is one of this list.
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
  // A text that only the size of the body bounds would make a body that is too large.
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
export const anyCall: fc.Arbitrary<Call> = fc.oneof(
  ...OPERATIONS.map((operation, at) => ({ arbitrary: callOf(operation, at), weight: weightOf(operation) })),
)
