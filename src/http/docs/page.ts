// /docs: the API description as a page for a browser, on which a developer tries calls with a test key. The viewer is a
// package that is part of the program. The page loads nothing from any other address, and calls no other.

import { readBrowserFile } from '../../resources.ts'
import { INFO } from '../openapi/document.ts'
import { shownDescription } from './shown.ts'

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
      return answerOf('application/json', shownDescription())
    case '/docs/page.css':
      return zipped('text/css', await readBrowserFile('page.css'))
    case '/docs/start.js':
      return zipped('text/javascript', await readBrowserFile('start.js'))
    case '/docs/viewer.css':
      await inTurn()
      return zipped('text/css', await readBrowserFile('swagger-ui.css'))
    case '/docs/viewer.js':
      await inTurn()
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

let last: Promise<void> = Promise.resolve()

/**
 * One large file per turn of the event loop: handing half a megabyte to a socket takes as long as all calls of a turn
 * may take, and anybody may ask for it.
 */
function inTurn(): Promise<void> {
  last = last.then(() => new Promise((resolve) => setImmediate(resolve)))
  return last
}

const answerOf = (type: string, body: string | Uint8Array): DocsAnswer => ({
  headers: { ...HEADERS, 'content-type': `${type}; charset=utf-8` },
  body,
})

/** Every browser accepts gzip, so the files are embedded compressed, and never unpacked here. */
function zipped(type: string, body: Uint8Array): DocsAnswer {
  const { headers } = answerOf(type, body)
  return { headers: { ...headers, 'content-encoding': 'gzip' }, body }
}
