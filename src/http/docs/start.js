// The page of the API in a browser: the viewer, and a test key for trying calls. The key is in one variable of this
// module and nowhere else: not in the document, the viewer's state, an address or anything that a browser stores.

const ids = ['authorize', 'key', 'told', 'refused', 'forget']
const [form, field, told, refused, forget] = ids.map((id) => document.getElementById(id))

/** Where the service is, also behind a proxy that gave it a path of its own. */
const service = new URL('.', location).href
const LIVE = 'sse_live_'
let key = null

const dark = matchMedia('(prefers-color-scheme: dark)')
dark.onchange = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.onchange()

/** Calls this service, and nobody it might redirect to. */
function send(url, { method, headers, body }) {
  if (!url.startsWith(`${service}partner/`)) throw new Error('This page calls this service alone.')
  if (JSON.stringify([url, headers, body ?? null]).includes(LIVE))
    throw new Error('There is a live key in this call, so it was not sent.')
  const authorized = { ...headers, ...(key && { Authorization: `Bearer ${key}` }) }
  return fetch(url, { method, headers: authorized, body, redirect: 'error' })
}

/** Says whose key the page has; without a caller it has none, for this reason. */
function show(caller, reason = '') {
  if (!caller) key = null
  field.value = ''
  told.textContent = caller
  refused.textContent = reason
  form.hidden = Boolean(caller)
  forget.hidden = !caller
}

/** A live key goes as soon as it is there, typed or pasted, before anybody could send it. */
field.oninput = () => {
  refused.textContent = ''
  if (field.value.includes(LIVE))
    show('', 'That is a live key: this page neither keeps nor sends one that can move money. Use a test key.')
}
form.onsubmit = async (event) => {
  event.preventDefault()
  const given = field.value.trim().replace(/^Bearer /, '')
  const isTest = /^sse_test_[0-9A-Za-z]{46}$/.test(given)
  if (!isTest) return show('', 'A test key is sse_test_ and 46 letters and digits.')
  key = given
  field.value = ''
  try {
    const answer = await send(`${service}partner/v1/me`, {})
    const { detail, partner_name: name, partner_slug: slug, environment } = await answer.json()
    if (!answer.ok) return show('', `The service answers ${answer.status}: ${detail}`)
    show(`Authorized: ${name} (${slug}), ${environment}`)
    forget.focus()
  } catch {
    show('', 'The service does not answer.')
  }
}
forget.onclick = () => {
  show('')
  field.focus()
}

/** What the viewer is about to send, but for the description. In its command for a shell, a variable has the key. */
const intercept = (request) =>
  request.loadSpec
    ? request
    : Object.assign(request, { userFetch: send, curlOptions: ['-H "Authorization: Bearer $KEY"'] })

SwaggerUIBundle({
  dom_id: '#viewer',
  url: 'docs/description.json',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  requestInterceptor: intercept,
  validatorUrl: null,
  onComplete: () => document.querySelector('.operation-filter-input')?.setAttribute('aria-label', 'Filter'),
})
