// Validates answers against the API description: the status is documented, the body has its shape and nothing more, and
// the promised headers are present.

import assert from 'node:assert/strict'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { describeApi } from '../../src/http/openapi/document.ts'
import { VERSION } from '../../src/resources.ts'

type Reference = { $ref: string }
export type Schema = { [name: string]: unknown }
type Example = { value: unknown }
type Body = { content: { 'application/json': { schema: Reference; examples?: Record<string, Example> } } }
type AnswerHeader = { required: boolean; schema: Schema; example?: unknown }
type Response = Body & { headers: Record<string, Reference | AnswerHeader> }
type Header = { name: string; schema: Schema }
export type DescribedOperation = {
  operationId: string
  requestBody?: Body
  responses: Record<string, Response>
}
export type Description = {
  paths: Record<string, Record<string, DescribedOperation>>
  webhooks: Record<string, { post: { requestBody: Body; parameters: readonly Header[] } }>
  components: { schemas: Record<string, Schema>; headers: Record<string, AnswerHeader> }
}

export const DESCRIPTION = describeApi(VERSION) as Description

const PATHS = Object.entries(DESCRIPTION.paths)
  .map(([template, operations]) => ({ matches: patternOf(template), operations }))
  // A path without a parameter precedes one with a parameter in the same place.
  .sort((a, b) => a.matches.source.length - b.matches.source.length)

/** Their bounds are in the schemas, too. */
const NUMBERS = { int32: true, int64: true } as const

let loaded: Ajv2020 | undefined
/** Dates alone and other spellings of an instant are accepted too; the description names the preferred one. */
let requests: Ajv2020 | undefined
const compiled = new Map<string, ValidateFunction>()

/** Throws when an answer of a described operation is not as described. Requests of no operation are not promised. */
export function assertDescribed(
  method: string,
  path: string,
  answer: { status: number; headers: Headers; body: unknown },
): void {
  const operation = operationAt(method, path)
  if (!operation) return
  const what = `${method} ${path} answered ${answer.status}`
  const response = operation.responses[String(answer.status)]
  assert.ok(response, `${what}, which is not described`)
  assertValid(response.content['application/json'].schema.$ref, answer.body, what)
  for (const [name, given] of Object.entries(response.headers)) {
    const value = answer.headers.get(name)
    const header =
      '$ref' in given ? DESCRIPTION.components.headers[given.$ref.split('/').at(-1) ?? ''] : given
    assert.ok(header, `${name} of ${what} is described`)
    if (value === null && !header.required) continue
    assert.notEqual(value, null, `${what} without ${name}`)
    const { schema } = header
    const read = schema.type === 'integer' ? Number(value) : value
    const isAsDescribed =
      '$ref' in given ? validator(`${given.$ref}/schema`)(read) : (schema.enum as unknown[]).includes(read)
    assert.ok(isAsDescribed, `${what} with ${name}: ${value}`)
  }
}

/** Throws when an accepted body is not one that the description allows. */
export function assertAccepted(method: string, path: string, body: unknown): void {
  const reference = operationAt(method, path)?.requestBody?.content['application/json'].schema.$ref
  if (reference === undefined) return
  const formats = { ...NUMBERS, 'date-time': true, uri: true } as const
  const schemas = { $id: 'api', components: DESCRIPTION.components }
  requests ??= new Ajv2020({ strict: false, formats }).addSchema(schemas)
  const validate = requests.getSchema(`api${reference}`)
  // Formatted only when needed: a fuzzer's body may be nested too deep for that.
  if (!validate?.(body)) assert.fail(`${method} ${path} accepted ${JSON.stringify(body)}`)
}

export function operationAt(method: string, path: string): DescribedOperation | undefined {
  const bare = path.split('?')[0] ?? ''
  return PATHS.find(({ matches }) => matches.test(bare))?.operations[method.toLowerCase()]
}

export function assertValid(reference: string, value: unknown, what: string): void {
  const validate = validator(reference)
  if (validate(value)) return
  assert.fail(`${what}: ${loaded?.errorsText(validate.errors)}\n${JSON.stringify(value)}`)
}

/** Compiled on first use: most test files need only a few. */
function validator(reference: string): ValidateFunction {
  loaded ??= new Ajv2020({
    strict: false,
    allErrors: true,
    formats: { ...NUMBERS, 'date-time': DATE_TIME, uri: true },
  }).addSchema({ $id: 'api', components: closed(DESCRIPTION.components) })
  const known = compiled.get(reference) ?? loaded.compile({ $ref: `api${reference}` })
  compiled.set(reference, known)
  return known
}

const DATE_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/

/** Clients must live with unknown fields; the service must not send an undescribed one. */
function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed)
  if (node === null || typeof node !== 'object') return node
  const inner = Object.fromEntries(Object.entries(node).map(([name, value]) => [name, closed(value)]))
  return inner.type === 'object' && 'properties' in inner ? { ...inner, additionalProperties: false } : inner
}

function patternOf(template: string): RegExp {
  return new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`)
}
