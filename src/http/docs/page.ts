// /docs: the API description as a page for a browser, on which a developer tries calls with a test key. The viewer is a
// package that is part of the program. The page loads nothing from any other address, and calls no other.

import { readBrowserFile, VERSION } from '../../resources.ts'
import { ERROR_STATUS, type ErrorCode } from '../error-codes.ts'
import { describeApi, INFO } from '../openapi/document.ts'
import { ANY_REFUSAL, BODY_REFUSALS, type RefusalExample } from '../openapi/examples.ts'
import { turnForLarge } from '../turns.ts'

export const DOCS_PATHS = [
  '/docs',
  '/docs/page.css',
  '/docs/viewer.css',
  '/docs/viewer.js',
  '/docs/start.js',
  '/docs/description.json',
] as const
type DocsPath = (typeof DOCS_PATHS)[number]
type DocsAnswer = { headers: Record<string, string>; body: string | Uint8Array }

// Relative addresses, so that a proxy may put the service under a path of its own. The field for the key has no name,
// is not a password that a browser would offer to keep, and is checked by no spelling service.
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${INFO.title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/viewer.css">
<link rel="stylesheet" href="docs/page.css">
<script src="docs/viewer.js" defer></script>
<script src="docs/start.js" type="module"></script>
</head>
<body>
<header id="top">
<p class="brand">tranche</p>
<form id="authorize" autocomplete="off">
<label for="key">Test key</label>
<input id="key" type="text" autocomplete="off" autocapitalize="none" autocorrect="off" spellcheck="false"
  placeholder="sse_test_…" aria-describedby="about" required>
<button>Authorize</button>
</form>
<p id="told" role="status"></p>
<button id="forget" type="button" hidden>Forget the key</button>
<p id="refused" role="alert"></p>
<p id="about">“Try it out” calls this service for your sandbox. The key stays in this page’s memory until you close or
reload it. A live key is refused.</p>
</header>
<noscript><p>This page needs JavaScript. The same as JSON: <a href="openapi.json">openapi.json</a></p></noscript>
<div id="viewer"></div>
</body>
</html>
`

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
}

export async function readDocs(path: DocsPath): Promise<DocsAnswer> {
  switch (path) {
    case '/docs':
      return answerOf('text/html', PAGE)
    case '/docs/description.json':
      await turnForLarge()
      return answerOf('application/json', shownDescription())
    case '/docs/page.css':
      return zipped('text/css', await readBrowserFile('page.css'))
    case '/docs/start.js':
      return zipped('text/javascript', await readBrowserFile('start.js'))
    case '/docs/viewer.css':
      await turnForLarge()
      return zipped('text/css', await readBrowserFile('swagger-ui.css'))
    case '/docs/viewer.js':
      await turnForLarge()
      return zipped('text/javascript', await readBrowserFile('swagger-ui-bundle.js'))
    default:
      return path satisfies never
  }
}

/**
 * Whether a call of the bare address comes from a person with a browser, who is led to the page. A program that follows
 * links would otherwise take the page for an answer: it says nothing of HTML, and gets what any unknown path gets.
 */
export const wantsPage = (method: string, accept: string | null): boolean =>
  method === 'GET' &&
  (accept ?? '').split(',').some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    return type === 'text/html' && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))
  })

/** Where that person is led. Relative, like the addresses on the page. */
export const TO_PAGE = { location: 'docs', vary: 'accept' }

/** The address of the page with a slash too many: the page's own addresses would lead elsewhere from there. */
export const SLASHED = { path: '/docs/', to: { location: '../docs' } }

const answerOf = (type: string, body: string | Uint8Array): DocsAnswer => ({
  headers: { ...HEADERS, 'content-type': `${type}; charset=utf-8` },
  body,
})

/** Every browser accepts gzip, so the files are embedded compressed, and never unpacked here. */
function zipped(type: string, body: Uint8Array): DocsAnswer {
  const { headers } = answerOf(type, body)
  return { headers: { ...headers, 'content-encoding': 'gzip' }, body }
}

// What /docs shows of the API description. The refusals and headers that every operation shares would bury what is its
// own, so the page has them once, at its top. /openapi.json says all of it everywhere, for generators.

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

/** Made once, as bytes, like the description itself. */
let made: Uint8Array | undefined

function shownDescription(): Uint8Array {
  made ??= Buffer.from(JSON.stringify(describeShown()))
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
