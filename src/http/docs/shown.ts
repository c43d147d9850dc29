// What /docs shows of the API description. The refusals and headers that every operation shares would bury what is its
// own, so the page has them once, at its top. /openapi.json says all of it everywhere, for generators.

import { VERSION } from '../../resources.ts'
import { ERROR_STATUS, type ErrorCode } from '../error-codes.ts'
import { describeApi } from '../openapi/document.ts'
import { ANY_REFUSAL, BODY_REFUSALS, type RefusalExample } from '../openapi/examples.ts'

type Described = {
  info: { description: string }
  servers: { url: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { headers: Record<string, { description: string }>; schemas: Record<string, unknown> }
}
type Operation = {
  operationId: string
  parameters: Parameter[]
  responses: Record<string, Response>
}
type Parameter = { name: string; in: string; description: string }
type Response = {
  description: string
  headers?: Record<string, { schema?: { enum: ErrorCode[] } }>
  content?: Record<string, { examples?: Record<string, Example> }>
}
type Example = { summary: string; 'x-error-code'?: ErrorCode; value: { detail: RefusalExample['detail'] } }

/** Made once, like the description itself. */
let made: string | undefined

export function shownDescription(): string {
  made ??= JSON.stringify(describeShown())
  return made
}

function describeShown(): Described {
  const whole = describeApi(VERSION) as unknown as Described
  const operations = Object.values(whole.paths).flatMap((methods) => Object.values(methods))
  const opening = [whole.info.description, ...openingOf(whole, operations)].join('\n\n')
  for (const operation of operations) {
    operation.parameters = ownParameters(operation.parameters)
    operation.responses = ownResponses(operation.responses)
  }
  const { Refusal, ValidationRefusal, ...schemas } = whole.components.schemas
  return {
    ...whole,
    info: { ...whole.info, description: opening },
    // Relative to the address of this document: behind a proxy the service may have a path of its own.
    servers: [{ url: '..' }],
    components: { ...whole.components, schemas },
  }
}

const REQUEST_ID = 'X-Request-Id'
const SHARED_HEADERS = new Set([REQUEST_ID, 'X-Ignored-Fields'])
const SHARED_REFUSALS = new Set([...ANY_REFUSAL, ...BODY_REFUSALS].map(({ code, name }) => `${code} ${name}`))

/** The viewer encodes what is typed. */
const ownParameters = (parameters: readonly Parameter[]): Parameter[] =>
  parameters
    .filter(({ name }) => name !== REQUEST_ID)
    .map((one) => (one.in === 'path' ? { ...one, description: 'As it is; in a URL, percent-encoded.' } : one))

/** The responses of an operation, where each refusal of its own is one line, and a shared one is not there. */
function ownResponses(responses: Record<string, Response>): Record<string, Response> {
  return Object.fromEntries(
    Object.entries(responses).flatMap(([status, response]): [string, Response][] => {
      if (status === '200') return [[status, { ...response, headers: ownHeaders(response) }]]
      const own = examplesOf(response).filter(
        ([name, example]) => !SHARED_REFUSALS.has(`${example['x-error-code']} ${name}`),
      )
      if (own.length === 0) return []
      return [[status, { description: own.map(([, example]) => lineOf(example)).join('\n') }]]
    }),
  )
}

const ownHeaders = ({ headers = {} }: Response): NonNullable<Response['headers']> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !SHARED_HEADERS.has(name)))

const examplesOf = ({ content }: Response): [string, Example][] =>
  Object.entries(content?.['application/json']?.examples ?? {})

function lineOf({ summary, value, 'x-error-code': code }: Example): string {
  const { detail } = value
  const told =
    typeof detail === 'string' ? [detail] : detail.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`)
  return `- \`${code}\` ${summary}. ${told.map((text) => `\`${text}\``).join(' ')}`
}

/** What the page says once, below the description's own words. */
function openingOf({ components }: Described, operations: readonly Operation[]): string[] {
  return [
    'An operation shows the refusals and headers of its own; [openapi.json](openapi.json) repeats the shared ones ' +
      'everywhere, for generators.',
    folded('Headers and errors of every answer', [
      `- \`${REQUEST_ID}\` is the id of the call, to quote to the operator. You may send your own: letters, digits, ` +
        '`.`, `_` and `-`.',
      `- \`X-Ignored-Fields\`: ${components.headers.IgnoredFields?.description}`,
      '- A refusal has `X-Error-Code`, the reason for a program, and in its body `detail`, a sentence for a person; ' +
        'with 422, `detail` lists every wrong field with its `type`, `loc` and `msg`. More codes may be added: treat ' +
        'one that you do not know as its status says.',
    ]),
    folded('Refusals of every call', tableOf(anyRefusals(operations))),
    folded('Refusals of every call with a body', tableOf(BODY_REFUSALS)),
  ]
}

type Row = { code: ErrorCode; summary: string }

/** The codes of refusals that an operation without any of its own has, also those that have no example. */
function anyRefusals(operations: readonly Operation[]): Row[] {
  const plain = operations.find(({ operationId }) => operationId === 'getMe')
  return Object.values(plain?.responses ?? {}).flatMap(({ description, headers }) =>
    (headers?.['X-Error-Code']?.schema?.enum ?? []).map((code) => ({
      code,
      summary:
        ANY_REFUSAL.find((refusal) => refusal.code === code)?.summary ?? description.replace(/\.$/, ''),
    })),
  )
}

/** One row for the codes that mean the same, and for all meanings of a code. */
function tableOf(refusals: readonly Row[]): string[] {
  const byCode = [...Map.groupBy(refusals, ({ code }) => code)].map(([code, same]) => ({
    code,
    summary: same.map(({ summary }) => summary).join('; '),
  }))
  const rows = [...Map.groupBy(byCode, ({ summary }) => summary)].map(([summary, same]) => {
    const codes = same.map(({ code }) => `\`${code}\``).join(' ')
    return `| ${same.map(({ code }) => ERROR_STATUS[code])[0]} | ${codes} | ${summary} |`
  })
  return ['| status | X-Error-Code | when |', '|---|---|---|', ...rows]
}

const folded = (title: string, lines: readonly string[]): string =>
  `<details><summary>${title}</summary>\n\n${lines.join('\n')}\n\n</details>`
