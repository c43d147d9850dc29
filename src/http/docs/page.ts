// /docs: the API description as a page for a browser, on which a developer tries calls with a test key. The viewer is a
// package that is part of the program. The page loads nothing from any other address, and calls no other.

import { readBrowserFile, VERSION } from '../../resources.ts'
import { ERROR_STATUS } from '../error-codes.ts'
import { ANYWHERE, describeApi, INFO, refusalList } from '../openapi/document.ts'
import { ANY_REFUSAL, BODY_REFUSALS } from '../openapi/examples.ts'

const FILES = {
  '/docs/page.css': ['text/css', 'page.css'],
  '/docs/viewer.css': ['text/css', 'swagger-ui.css'],
  '/docs/viewer.js': ['text/javascript', 'swagger-ui-bundle.js'],
  '/docs/start.js': ['text/javascript', 'start.js'],
} as const
const FILE_PATHS = Object.keys(FILES) as (keyof typeof FILES)[]
export const DOCS_PATHS = ['/docs', '/docs/description.json', ...FILE_PATHS] as const

// Relative addresses, so that a proxy may put the service under a path of its own. The field for the key has no name,
// is not a password that a browser would offer to keep, and is checked by no spelling service. The viewer's sheet comes
// last, so that no browser waits for it before it shows the header.
const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${INFO.title}</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/page.css">
<script src="docs/viewer.js" defer></script>
<script src="docs/start.js" type="module"></script>
<header id="top"><b>tranche</b>
<noscript>This page needs JavaScript. <a href="openapi.json">openapi.json</a> says the same to programs.</noscript>
<form id="authorize" autocomplete="off"><label for="key">Test key</label>
<input id="key" type="text" autocomplete="off" autocapitalize="none" autocorrect="off" spellcheck="false"
  placeholder="sse_test_…" aria-describedby="about" size="32" required>
<button>Authorize</button></form>
<span id="told" role="status"></span><button id="forget" type="button" hidden>Forget the key</button>
<div id="refused" role="alert"></div>
<div id="about">“Try it out” calls this service for your sandbox. The key stays in this page’s memory until you close or
reload it. A live key is refused.</div>
</header>
<div id="viewer"><p>Loading…</p></div>
<link rel="stylesheet" href="docs/viewer.css">
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
const answerOf = (type: string, body: string | Uint8Array, more = {}) => ({
  headers: { ...HEADERS, 'content-type': `${type}; charset=utf-8`, ...more },
  body,
})

/** The description on the page: made once, as bytes, like the description itself. */
let shown: Uint8Array | undefined

export async function readDocs(path: (typeof DOCS_PATHS)[number]) {
  if (path === '/docs') return answerOf('text/html', PAGE)
  if (path === '/docs/description.json') {
    shown ??= Buffer.from(JSON.stringify(describeShown()))
    return answerOf('application/json', shown)
  }
  const [type, name] = FILES[path]
  // Every browser accepts gzip, so the files are embedded compressed, and never unpacked here.
  return answerOf(type, await readBrowserFile(name), { 'content-encoding': 'gzip' })
}

/** Whether a browser calls the bare address. A program that follows links would take the page for an answer. */
export const wantsPage = (method: string, accept: string | null): boolean =>
  method === 'GET' &&
  (accept ?? '')
    .split(',')
    .some((range) => /^\s*text\/html\s*(;|$)/i.test(range) && !/;\s*q=0(\.0*)?\s*(;|$)/i.test(range))

/** Where the browser is sent. Relative, like the addresses on the page. */
export const TO_PAGE = { location: 'docs', vary: 'accept' }
/** The page's address with an extra slash, from which the page's relative addresses would be wrong. */
export const SLASHED = { path: '/docs/', to: { location: '../docs' } }

// The short description, in which the parts common to all operations stand once. /openapi.json repeats them everywhere,
// for generators.

function describeShown(): object {
  const { security, ...whole } = describeApi(VERSION, { isShort: true })
  const { securitySchemes, ...components } = whole.components as Record<string, unknown>
  const { license, ...info } = INFO
  const codes = [...ANY_REFUSAL, ...BODY_REFUSALS]
  const others = [...ANYWHERE.difference(new Set<string>(codes))]
  const shared = `Each operation shows only its own refusals; [openapi.json](openapi.json) repeats these everywhere.
<details><summary>Headers and refusals of every call</summary>

- \`X-Request-Id\` is the id of the call, to quote to the operator. You may send your own.
- A refusal has \`X-Error-Code\`, the reason for a program, and in its body \`detail\`, a sentence for a person; with 422,
  \`detail\` lists every wrong field. More codes may be added: treat one that you do not know as its status says.
${refusalList(codes)}
- ${others.map((code) => `\`${code}\` (${ERROR_STATUS[code]})`).join(' ')}

</details>`
  return {
    ...whole,
    info: { ...info, version: VERSION, description: `${info.description}\n\n${shared}` },
    // Relative to the address of this document: behind a proxy the service may have a path of its own.
    servers: [{ url: '..' }],
    components,
  }
}
