// The API description, OpenAPI 3.1, made from the route table and the schemas of the handlers.

import { z } from 'zod'
import { ID_MAX } from '../../core/text.ts'
import { EVENT_NAME, WEBHOOK_URL_MAX } from '../../core/webhook.ts'
import { VERSION } from '../../resources.ts'
import { REQUEST_ID } from '../answer-headers.ts'
import { ERROR_CODES, ERROR_STATUS, type ErrorCode } from '../error-codes.ts'
import { fillBody, noFillBody } from '../executions.ts'
import { EXECUTION_ID, oneLine, SAMPLE } from '../fields.ts'
import { BODY_BYTES_MAX } from '../request.ts'
import { type Route, route } from '../route.ts'
import { ROUTES } from '../routes.ts'
import { wakeUp, wakeUpCall } from '../webhooks.ts'
import {
  ANY_REFUSAL,
  answerExamples,
  BODY_EXAMPLES,
  BODY_REFUSALS,
  type Examples,
  type RefusalCode,
  refusalExample,
} from './examples.ts'
import { OPERATIONS, type Operation } from './route-descriptions.ts'

type Json = { [name: string]: unknown }

/** `version` is the program's. The short one, for people, leaves out the refusals that all operations share. */
export function describeApi(version: string, { isShort = false } = {}): Json {
  const paths: Record<string, Json> = {}
  for (const route of ROUTES) {
    const path = templateOf(route.path)
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, isShort) }
  }
  return {
    openapi: '3.1.1',
    info: { ...INFO, version },
    servers: SERVERS,
    security: [{ key: [] }],
    tags: TAGS,
    paths,
    webhooks: {
      [EVENT_NAME]: {
        post: wakeUpCall(jsonOf('WakeUp', answerExamples('WakeUp', schemaOf(wakeUp, 'output')))),
      },
    },
    components: {
      securitySchemes: {
        key: {
          type: 'http',
          scheme: 'bearer',
          description:
            'An API key, `sse_test_` for the sandbox and `sse_live_` for real purchases. Nothing else differs.',
        },
      },
      headers: HEADERS,
      schemas: schemas(),
    },
  }
}

/** `/users/:id` of the router is `/users/{id}` here. */
const templateOf = (path: string): string => path.replace(/:(\w+)/g, '{$1}')

function operationFor(route: Pick<Route, 'method' | 'path'>): Operation {
  const operation = OPERATIONS[`${route.method} ${route.path}`]
  if (!operation) throw new Error(`${route.method} ${route.path} is not described`)
  return operation
}

function operationOf(route: Route, isShort: boolean): Json {
  const { operationId, tag, summary, description, isAddition, ...operation } = operationFor(route)
  return {
    operationId,
    tags: [tag],
    summary,
    description: isAddition ? `An addition to the contract. ${description}` : description,
    ...(isAddition && { 'x-addition': true }),
    parameters: [...parametersOf(route, operation.params ?? {}), ...(isShort ? [] : PARAMETERS)],
    ...(operation.body !== undefined && {
      requestBody: { required: true, content: jsonOf(operation.body, BODY_EXAMPLES[operation.body]) },
    }),
    responses: {
      '200': {
        description: 'Done.',
        headers: headersOf({ ...(!isShort && SHARED_HEADERS), ...operation.headers }),
        content: jsonOf(operation.answer, answerExamples(operation.answer, schemaOf(route.answer, 'output'))),
      },
      ...(isShort ? listedRefusals : refusalsOf)(operationId, operation),
    },
  }
}

function parametersOf(route: Route, params: Record<string, string>): Json[] {
  const inPath = Object.entries(params).map(([name, example]) => ({
    name,
    in: 'path',
    required: true,
    description: 'In a URL, percent-encoded.',
    schema: { type: 'string', ...(name === 'execution_id' ? EXECUTION_ID : oneLine(ID_MAX)) },
    example,
  }))
  const shape = route.query ? schemaOf(route.query, 'input') : { properties: {}, required: [] }
  const required = shape.required as string[] | undefined
  const inQuery = Object.entries(shape.properties as Record<string, Json>).map(([name, property]) => {
    const { description, examples, ...schema } = property
    const example = (examples as unknown[])[0]
    return { name, in: 'query', required: required?.includes(name) ?? false, description, schema, example }
  })
  return [...inPath, ...inQuery]
}

type Refused = Pick<Operation, 'body' | 'refusals'>

function refusalsOf(operationId: string, { body, refusals = [] }: Refused): Json {
  const all = new Set([...refusals, ...(body === undefined ? [] : BODY_REFUSALS), ...ANY_REFUSAL])
  return byStatus(all, (codes, status) => ({
    description: MEANING[status],
    headers: {
      ...headersOf({ ...SHARED_HEADERS, ...REFUSAL_HEADERS[status] }),
      'X-Error-Code': errorCodeHeader(status, codes),
    },
    content: {
      'application/json': {
        schema: { $ref: `#/components/schemas/${status === 422 ? 'ValidationRefusal' : 'Refusal'}` },
        examples: Object.fromEntries(codes.map((code) => [code, refusalExample(code, operationId)])),
      },
    },
  }))
}

const listedRefusals = (operationId: string, { refusals = [] }: Refused): Json =>
  byStatus(refusals, (codes) => ({ description: refusalList(codes, operationId) }))

function byStatus(
  codes: Iterable<RefusalCode>,
  describe: (codes: readonly RefusalCode[], status: number) => Json,
): Json {
  const groups = [...Map.groupBy(codes, (code) => ERROR_STATUS[code])].sort(([a], [b]) => a - b)
  return Object.fromEntries(groups.map(([status, group]) => [String(status), describe(group, status)]))
}

export const refusalList = (codes: readonly RefusalCode[], operationId = ''): string =>
  codes
    .map((code) => {
      const { summary, value } = refusalExample(code, operationId)
      const told =
        typeof value.detail === 'string'
          ? [value.detail]
          : value.detail.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`)
      return `- \`${code}\` ${summary}. ${told.map((text) => `\`${text}\``).join(', ')}`
    })
    .join('\n')

const MEANING: Record<number, string> = {
  400: 'The request is well formed but breaks a rule.',
  401: 'The key is missing, malformed or invalid.',
  403: 'The partner or the user is not active.',
  404: 'Nothing of this name in the environment of the key.',
  409: 'In conflict with what is recorded.',
  413: 'The body is too large.',
  415: 'The body is compressed.',
  422: 'Fields are missing or wrong; every one is listed.',
  429: 'Too many requests for this key.',
  500: 'A failure of the service.',
  503: 'Not ready yet.',
}

/** The refusals possible for any call, whether or not its route shows an example. */
export const ANYWHERE = new Set<ErrorCode>([
  'bad_request',
  'key_malformed',
  'key_invalid',
  'partner_disabled',
  'route_not_found',
  'rate_limited',
  'too_many_calls',
  'internal_error',
  'starting',
  'database_busy',
  'database_unavailable',
  'service_moved',
  'service_frozen',
  'service_outdated',
])

/** The codes with which a route can refuse under one status. The header's example belongs to the body's first one. */
function errorCodeHeader(status: number, shown: readonly ErrorCode[]): Json {
  const codes = ERROR_CODES.filter(
    (code) => ERROR_STATUS[code] === status && (shown.includes(code) || ANYWHERE.has(code)),
  )
  return {
    description: 'Why, for a program. More may be added: treat one that you do not know as its status says.',
    required: true,
    schema: { type: 'string', enum: codes },
    example: shown[0],
  }
}

const REFUSAL_HEADERS: Record<number, Record<string, string>> = {
  401: { 'WWW-Authenticate': 'Challenge' },
  429: { 'Retry-After': 'RetryAfter' },
  503: { 'Retry-After': 'RetryAfter' },
}

const SHARED_HEADERS = { 'X-Request-Id': 'RequestId' }

function headersOf(all: Record<string, string>): Json {
  return Object.fromEntries(
    Object.entries(all).map(([name, component]) => [name, { $ref: `#/components/headers/${component}` }]),
  )
}

const jsonOf = (name: string, examples: Examples | undefined): Json => ({
  'application/json': { schema: { $ref: `#/components/schemas/${name}` }, ...(examples && { examples }) },
})

/** The longest detail has a host name twice. */
const DETAIL_MAX = 2 * WEBHOOK_URL_MAX + 500

const refusal = z.object({
  detail: z.string().meta({ maxLength: DETAIL_MAX, description: 'The mistake, for a person to read.' }),
})

/** The offset at which a body stops being JSON. */
const offset = z.int().min(0).max(BODY_BYTES_MAX)
/** More fields than any body or query has. */
const FIELDS_MAX = 20

const validationRefusal = z.object({
  detail: z
    .array(
      z.object({
        type: z.string().meta({
          pattern: '^[a-z_]+$',
          maxLength: 64,
          description: 'The kind of mistake, for a program.',
          examples: ['missing'],
        }),
        loc: z
          .array(z.union([z.string().meta({ pattern: '^[a-z_]+$', maxLength: 64 }), offset]))
          .min(1)
          .max(2)
          .meta({ description: 'Where: body or query, then the field.', examples: [['body', 'amount_usd']] }),
        msg: z
          .string()
          .meta({ maxLength: 500, description: 'The mistake in words.', examples: ['Field required'] }),
      }),
    )
    .min(1)
    .max(FIELDS_MAX)
    .meta({ description: 'Every wrong field, in the order of the documentation.' }),
})

function schemas(): Json {
  const ofRoutes: Json = {}
  for (const route of ROUTES) {
    const { body, answer } = operationFor(route)
    if (route.body && body !== undefined && body !== 'Confirmation')
      ofRoutes[body] = schemaOf(route.body, 'input')
    ofRoutes[answer] = schemaOf(route.answer, 'output')
  }
  return {
    ...ofRoutes,
    ...confirmation(),
    WakeUp: schemaOf(wakeUp, 'output'),
    Refusal: schemaOf(refusal, 'output'),
    ValidationRefusal: schemaOf(validationRefusal, 'output'),
  }
}

/** The required fields of a report depend on its status: two shapes, each with its own statuses. */
function confirmation(): Json {
  return {
    Confirmation: {
      oneOf: [
        { $ref: '#/components/schemas/FillConfirmation' },
        { $ref: '#/components/schemas/NoFillConfirmation' },
      ],
    },
    FillConfirmation: { ...schemaOf(fillBody, 'input'), description: 'Bitcoin was bought.' },
    NoFillConfirmation: {
      ...schemaOf(noFillBody, 'input'),
      description: 'Nothing was bought; amounts may be sent and are ignored.',
    },
  }
}

/** Fields added later must not break a client, so no schema forbids unknown fields. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema, ...described } = z.toJSONSchema(schema, {
    io,
    override: ({ jsonSchema }) => {
      delete jsonSchema.additionalProperties
    },
  })
  return flatten(described) as Json
}

/**
 * Renames samples to `examples`, and writes a nullable type as `type: [string, null]` instead of a choice of two
 * schemas. A nullable enum stays a choice: with a null among its values, some generators make types that do not
 * compile.
 */
function flatten(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(flatten)
  if (node === null || typeof node !== 'object') return node
  const flat = Object.fromEntries(
    Object.entries(node).map(([name, value]) =>
      name === SAMPLE ? ['examples', [value]] : [name, flatten(value)],
    ),
  )
  // Without a format, generators of some languages take whole numbers of 32 bits.
  if (flat.type === 'integer') return { ...flat, format: Number(flat.maximum) < 2 ** 31 ? 'int32' : 'int64' }
  const { anyOf, ...rest } = flat as { anyOf?: Json[] }
  const [one, other, ...more] = anyOf ?? []
  if (!one || other?.type !== 'null' || more.length > 0 || typeof one.type !== 'string') return flat
  return one.enum ? flat : { ...one, ...rest, type: [one.type, 'null'] }
}

const ID_OF_CALL = { type: 'string', pattern: REQUEST_ID.source, maxLength: 128 }

export const INFO = {
  title: 'tranche: Partner Smart Timing Execution API',
  summary: 'Recurring Bitcoin purchase plans, timed tranche by tranche.',
  description: [
    'The API for partners of tranche, which the operator who gave you your key runs. The headers of wake-ups begin with',
    '`X-Service`, unless the operator has chosen another name. Link a user, create a plan, poll what is due, buy it on',
    'your venue, confirm. The service keeps the ledger and never holds money. Every amount is a decimal string, every',
    'instant is UTC. The sandbox and the live environment differ by nothing but the key. Fields may be added to answers:',
    'ignore what you do not know. The header `X-Ignored-Fields` of an answer names what you sent and its route does not',
    'know, members of the body and `?name` of the query: one of them may be misspelt. It is absent when there are none.',
  ].join(' '),
  contact: { name: 'The operator who gave you your key' },
  license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
}

const SERVERS = [
  {
    url: '/',
    description: 'The service that answers this document, for the sandbox and for production alike.',
    'x-internal': false,
  },
]

const TAGS = [
  { name: 'Identity', description: 'The partner and the environment of a key.' },
  { name: 'Users', description: 'People who have consented.' },
  { name: 'Plans', description: 'Recurring purchases: how much, and how often.' },
  { name: 'Executions', description: 'Instructions to buy, and their outcome.' },
  { name: 'Webhooks', description: 'Wake-ups that save the wait until the next poll.' },
  { name: 'Billing', description: 'The fees of a month.' },
  { name: 'Sandbox', description: 'The time and the data of a test environment.' },
]

const PARAMETERS = [
  {
    name: 'X-Request-Id',
    in: 'header',
    required: false,
    description: 'Your id of this call; it comes back, and is in the log. Anything else is replaced.',
    schema: ID_OF_CALL,
    example: 'f3b1c6de-7a54-4c1e-9a51-0c2a8c1d7e10',
  },
]

const HEADERS = {
  RequestId: {
    description: 'The id of this call, to quote to the operator.',
    required: true,
    schema: ID_OF_CALL,
  },
  DueRemaining: {
    description: 'How many are still due after this page, counted up to 1,000: above 0, poll again at once.',
    required: true,
    schema: { type: 'integer', minimum: 0, maximum: 1_000, format: 'int32' },
  },
  RetryAfter: {
    description: 'Seconds to wait.',
    required: true,
    schema: { type: 'integer', minimum: 1, maximum: 86_400, format: 'int32' },
  },
  Challenge: {
    description: 'Always Bearer.',
    required: true,
    schema: { type: 'string', const: 'Bearer' },
  },
}

/** Made once, as bytes, so that callers without a key cannot keep the service busy with it. */
let bytes: Uint8Array | undefined

function description(): Uint8Array {
  bytes ??= Buffer.from(JSON.stringify(describeApi(VERSION)))
  return bytes
}

export const getDescription: Route = {
  ...route({
    method: 'GET',
    path: '/openapi.json',
    answer: z.record(z.string(), z.unknown()),
    handle: async () => describeApi(VERSION),
  }),
  ready: description,
}
