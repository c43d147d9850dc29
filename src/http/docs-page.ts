// /docs: the API description as a page for a browser. The viewer is a package that is part of the program. The page
// loads nothing from any other address, and from this one only /openapi.json.

import { readViewerFile } from '../resources.ts'
import { INFO } from './openapi/document.ts'

export const DOCS_PATHS = ['/docs', '/docs/viewer.css', '/docs/viewer.js', '/docs/start.js'] as const
type DocsPath = (typeof DOCS_PATHS)[number]
type DocsAnswer = { headers: Record<string, string>; body: string | Uint8Array }

// Relative addresses, so that a proxy may put the service under a path of its own.
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${INFO.title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/viewer.css">
</head>
<body>
<noscript>This page needs JavaScript. The same as JSON: <a href="openapi.json">openapi.json</a></noscript>
<div id="viewer"></div>
<script src="docs/viewer.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`

// The viewer only shows, without a field for a key or a choice of a server
// (docs/decisions/edge.md#the-api-page).
const START = `const dark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
follow()
dark.addEventListener('change', follow)

// Hides the empty box around the choice of a server.
const style = new CSSStyleSheet()
style.replaceSync('.scheme-container { display: none }')
document.adoptedStyleSheets.push(style)

const left = ['authorizeBtn', 'authorizeOperationBtn', 'ServersContainer', 'OAS31License']
SwaggerUIBundle({
  dom_id: '#viewer',
  url: 'openapi.json',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  filter: true,
  supportedSubmitMethods: [],
  validatorUrl: null,
  plugins: [{ wrapComponents: Object.fromEntries(left.map((name) => [name, () => () => null])) }],
})
`

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

export async function readDocs(path: DocsPath): Promise<DocsAnswer> {
  switch (path) {
    case '/docs':
      return answerOf('text/html', PAGE)
    case '/docs/start.js':
      return answerOf('text/javascript', START)
    case '/docs/viewer.css':
      await inTurn()
      return zipped('text/css', await readViewerFile('swagger-ui.css'))
    case '/docs/viewer.js':
      await inTurn()
      return zipped('text/javascript', await readViewerFile('swagger-ui-bundle.js'))
    default:
      return path satisfies never
  }
}

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

/** Every browser accepts gzip, so the viewer is embedded compressed, and never unpacked here. */
function zipped(type: string, body: Uint8Array): DocsAnswer {
  const { headers } = answerOf(type, body)
  return { headers: { ...headers, 'content-encoding': 'gzip' }, body }
}
