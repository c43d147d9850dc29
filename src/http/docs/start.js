// The page of the API in a browser: the viewer, and a test key for trying calls. The key is in one variable of this
// module and nowhere else: not in the document, the viewer's state, an address or anything that a browser stores.

const at = (id) => document.getElementById(id)
const [form, field, told, refused, forget] = ['authorize', 'key', 'told', 'refused', 'forget'].map(at)

/** Where the service is, also behind a proxy that gave it a path of its own. */
const service = new URL('.', location.href).href
const TEST_KEY = /^sse_test_[0-9A-Za-z]{46}$/
const LIVE = 'sse_live_'

let key = null

const dark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
follow()
dark.addEventListener('change', follow)

/** Calls this service, and nobody it might redirect to. */
function send(url, request) {
  const headers = { ...request.headers, ...(key && { Authorization: `Bearer ${key}` }) }
  return fetch(url, { ...request, headers, redirect: 'error' })
}

function refuse(reason) {
  field.value = ''
  field.setAttribute('aria-invalid', 'true')
  refused.textContent = reason
}

/** A live key goes as soon as it is there, typed or pasted, before anybody could send it. */
function refuseLive() {
  if (!field.value.includes(LIVE)) return false
  refuse(
    'That is a live key: it can move real money, so this page neither keeps nor sends it. Use a test key.',
  )
  return true
}

function show(caller) {
  told.textContent = caller
  form.hidden = caller !== ''
  forget.hidden = caller === ''
}

async function authorize(event) {
  event.preventDefault()
  if (refuseLive()) return
  const given = field.value.trim().replace(/^Bearer /, '')
  if (!TEST_KEY.test(given)) return refuse('A test key is sse_test_ and 46 letters and digits.')
  field.value = ''
  key = given
  const refusal = await introduce().catch(() => 'The service does not answer.')
  if (refusal === null) return forget.focus()
  key = null
  refuse(refusal)
}

/** Asks the service whose key it is. What it says if it refuses; null if it does not. */
async function introduce() {
  const answer = await send(`${service}partner/v1/me`, {})
  const { detail, partner_name: name, partner_slug: slug, environment } = await answer.json()
  if (!answer.ok) return `The service answers ${answer.status}: ${detail}`
  show(`Authorized: ${name} (${slug}), ${environment}`)
  return null
}

field.addEventListener('input', () => {
  field.removeAttribute('aria-invalid')
  refused.textContent = ''
  refuseLive()
})
form.addEventListener('submit', authorize)
forget.addEventListener('click', () => {
  key = null
  show('')
  field.focus()
})

/** What the viewer is about to send. It also loads the description this way, which needs no key. */
function intercept(request) {
  if (request.loadSpec) return request
  if (!request.url.startsWith(`${service}partner/`)) throw new Error('This page calls this service alone.')
  if (JSON.stringify([request.url, request.headers, request.body ?? null]).includes(LIVE))
    throw new Error('There is a live key in this call, so it was not sent.')
  return Object.assign(request, { userFetch: send })
}

/** A call as a line for a shell that has the key in a variable, as in the guide. */
function asCurl(request) {
  const { method, url, headers, body } = request.toJS()
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`
  const parts = [`curl -X ${method} ${quoted(url)}`, '-H "Authorization: Bearer $KEY"']
  for (const [name, value] of Object.entries(headers ?? {}))
    if (name !== 'accept') parts.push(`-H ${quoted(`${name}: ${value}`)}`)
  if (body) parts.push(`-d ${quoted(typeof body === 'string' ? body : JSON.stringify(body))}`)
  return parts.join(' \\\n  ')
}

const nothing = () => () => null
const viewer = {
  wrapComponents: {
    ...Object.fromEntries(
      ['authorizeBtn', 'authorizeOperationBtn', 'ServersContainer', 'OAS31License', 'InfoUrl'].map((name) => [
        name,
        nothing,
      ]),
    ),
    curl:
      (_, { React: { createElement: h } }) =>
      ({ request }) =>
        h('div', null, h('h4', null, 'In a shell'), h('pre', { className: 'in-shell' }, asCurl(request))),
  },
}

SwaggerUIBundle({
  dom_id: '#viewer',
  url: 'docs/description.json',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  requestInterceptor: intercept,
  showMutatedRequest: false,
  supportedSubmitMethods: ['get', 'post', 'patch', 'delete'],
  validatorUrl: null,
  plugins: [viewer],
  onComplete: () =>
    document.querySelector('.operation-filter-input')?.setAttribute('aria-label', 'Filter by tag or path'),
})
