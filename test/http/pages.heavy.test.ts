// The pages as a person sees them in a real browser: the API description, and the operator's page.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { findBrowserFile } from '../../src/resources.ts'
import { DESCRIPTION } from '../openapi/described.ts'
import { openBrowser, type Page } from '../support/browser.ts'
import { temporaryFolder } from '../support/database.ts'
import { finish, startServe } from '../support/process.ts'
import { withBusiness } from './monitored.ts'

/** The wake-up is among them. */
const OPERATIONS = Object.entries({ ...DESCRIPTION.paths, ...DESCRIPTION.webhooks }).flatMap(
  ([path, operations]) => Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
)

const IS_DARK = `document.documentElement.classList.contains('dark-mode')`

/** Waits until an expression is true in the page. */
async function until(page: Page, expression: string): Promise<void> {
  const told = await page.evaluate<boolean>(`new Promise((resolve) => {
    const end = performance.now() + 20_000
    const look = () => ((${expression}) || performance.now() > end ? resolve(Boolean(${expression})) : setTimeout(look, 20))
    look()
  })`)
  assert.ok(told, `${expression}\n${page.problems().join('\n')}`)
}

const shown = (page: Page): Promise<string[]> =>
  page.evaluate(`[...document.querySelectorAll('.opblock-summary')].map((one) =>
    one.querySelector('.opblock-summary-method').innerText + ' ' +
    one.querySelector('.opblock-summary-path').dataset.path)`)

/** Opens an operation, and waits until all of it is rendered. */
async function openOperation(page: Page, id: string): Promise<void> {
  await page.evaluate(`document.querySelector('[id$="-${id}"] .opblock-summary-control').click()`)
  await until(page, `document.querySelector('[id$="-${id}"] .responses-wrapper')`)
}

const isShown = `document.querySelectorAll('.opblock').length === ${OPERATIONS.length}`

/** Whether the whole page fits the screen. An emulated phone makes its window as wide as the page. */
const FITS = 'document.documentElement.scrollWidth <= document.documentElement.clientWidth'
test('the page of the API', async (t) => {
  const cwd = temporaryFolder(t)
  const { url } = await startServe(t, [], { cwd })

  await t.test('has every operation, asks nobody else and breaks no rule of its policy', async (t) => {
    const browser = await openBrowser(t)
    if (!browser) return
    // Dark from its start, and light when its reader has changed that. The bare address leads to it.
    const page = await browser.open(`${url}/`, { dark: true })
    assert.equal(await page.evaluate('location.href'), `${url}/docs`)
    assert.match(await page.evaluate('document.title'), /^tranche: /)
    await until(page, IS_DARK)
    await page.prefer('light')
    await until(page, `!${IS_DARK}`)
    await until(page, isShown)
    assert.deepEqual((await shown(page)).sort(), OPERATIONS.toSorted())
    assert.ok(!(await page.evaluate<string>('document.body.innerText')).includes('Loading…'))
    for (const id of ['getPlan', 'confirmExecution', 'wakeUp']) await openOperation(page, id)
    const text = await page.evaluate<string>('document.body.textContent')
    for (const said of [
      'An addition to the contract.',
      'Plan not found.',
      'order_id_taken',
      'poll due first',
    ])
      assert.ok(text.includes(said), said)
    // Nobody calls this service with a wake-up, so nobody tries one out.
    assert.equal(await count(page, '.opblock.is-open .try-out'), 2)
    assert.equal(await count(page, '.webhooks .opblock.is-open :is(.try-out, .execute)'), 0)
    assert.equal(await count(page, '.btn.authorize, .authorization__btn, .auth-wrapper'), 0)
    const links = await page.evaluate<string[]>(`[...document.links].map(({ href }) => href)`)
    assert.deepEqual(
      links.filter((href) => !href.startsWith(`${url}/`)),
      [],
    )
    assert.deepEqual(page.problems(), [])
    const own = ['page.css', 'viewer.css', 'viewer.js', 'start.js', 'description.json']
    const asked = ['/', '/docs', ...own.map((name) => `/docs/${name}`)]
    assert.deepEqual(page.requested().sort(), asked.map((path) => url + path).sort())

    // The policy's purpose: it forbids other addresses even to a script that got into the page.
    await page.evaluate(`fetch('http://127.0.0.1:9/').catch(() => {})`)
    assert.match(page.problems().join('\n'), /Content Security Policy/)
  })

  await t.test('says what a browser without scripts lacks', async (t) => {
    const browser = await openBrowser(t)
    if (!browser) return
    const page = await browser.open(`${url}/docs`, { scripts: false })
    const text = await page.evaluate<string>('document.body.innerText')
    assert.match(text, /This page needs JavaScript\./)
    assert.doesNotMatch(text, /Loading|Test key/)
  })

  await t.test('is embedded as it is in the checkout, and answered to GET alone', async () => {
    for (const [path, name] of [
      ['viewer.js', 'swagger-ui-bundle.js'],
      ['viewer.css', 'swagger-ui.css'],
      ['start.js', 'start.js'],
      ['page.css', 'page.css'],
    ] as const) {
      const answer = await fetch(`${url}/docs/${path}`)
      assert.equal(answer.headers.get('content-encoding'), 'gzip')
      assert.ok(Number(answer.headers.get('content-length')) < 500_000)
      const own = readFileSync(findBrowserFile(join(import.meta.dirname, '../..'), name))
      assert.ok(own.equals(await answer.bytes()), path)
    }
    const html = await (await fetch(`${url}/docs`)).text()
    assert.ok(html.includes('<div id="viewer"><p>Loading…</p></div>\n<link rel="stylesheet"'), 'never blank')
    const promised = {
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    }
    for (const path of ['/docs', '/docs/start.js', '/docs/viewer.js', '/docs/description.json']) {
      const { headers, status } = await fetch(url + path)
      assert.equal(status, 200)
      for (const [name, value] of Object.entries(promised)) assert.equal(headers.get(name), value, path)
      const refused = await fetch(url + path, { method: 'POST' })
      assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET'], path)
    }
    for (const path of ['/docs/x', '/docs/viewer', '/DOCS', '/docs/%76iewer.js'])
      assert.equal((await fetch(url + path)).status, 401, `${path} is nobody's, like any other`)
  })
})

// Calls that are tried on the page: with a test key, which only the page's memory holds.

/** The partner acme of a database that nothing serves yet, and a function that makes a key for it. */
async function withPartner(
  t: TestContext,
): Promise<{ cwd: string; issue: (env: string) => Promise<string> }> {
  const cwd = temporaryFolder(t)
  await finish(t, ['partner', 'create', 'acme', '--name', 'Acme <b>Exchange</b>'], { cwd })
  return {
    cwd,
    issue: async (env) =>
      JSON.parse((await finish(t, ['--json', 'key', 'create', 'acme', '--env', env], { cwd })).out).key,
  }
}

/** Pastes a key into its field, and presses Enter. */
async function give(page: Page, key: string): Promise<void> {
  await page.evaluate(`document.getElementById('key').focus()`)
  await page.type(key)
  await page.press('Enter')
}

const said = (page: Page, id: 'told' | 'refused'): Promise<string> =>
  page.evaluate(`document.getElementById('${id}').textContent`)

/** Tries an operation, with another body if given; answers the text that the page shows of its answer. */
async function execute(page: Page, id: string, body?: string): Promise<string> {
  const at = `document.querySelector('[id$="-${id}"]`
  await openOperation(page, id)
  await page.evaluate(`${at} .try-out__btn:not(.cancel)')?.click()`)
  await until(page, `${at} .execute')`)
  await page.evaluate(`${at} .btn-clear')?.click()`)
  await until(page, `!${at} .live-responses-table')`)
  if (body !== undefined) {
    await page.evaluate(`(${at} textarea').focus(), ${at} textarea').select())`)
    await page.type(body)
  }
  await page.evaluate(`${at} .execute').click()`)
  await until(page, `${at} .live-responses-table tbody')`)
  // Only the live response: the description has examples of answers below it.
  const answer = await page.evaluate<string>(
    `(${at} .curl-command')?.innerText ?? '') + ${at} .live-responses-table tbody').innerText`,
  )
  await page.evaluate(`${at} .opblock-summary-control').click()`)
  return answer
}

test('calls that are tried on the page of the API', async (t) => {
  const browser = await openBrowser(t)
  if (!browser) return
  const { cwd, issue } = await withPartner(t)
  const [key, live] = [await issue('test'), await issue('live')]
  const { url } = await startServe(t, [], { cwd })
  const me = `${url}/partner/v1/me`

  await t.test('by the keyboard: a test key is taken, calls the sandbox, and is kept nowhere', async () => {
    const page = await browser.open(`${url}/docs`)
    await until(page, isShown)
    for (let left = 5; !(await page.evaluate(`document.activeElement.id === 'key'`)); left -= 1) {
      assert.notEqual(left, 0, 'the keyboard does not reach the field')
      await page.press('Tab')
    }
    await give(page, key)
    await until(page, `document.activeElement.id === 'forget'`)
    assert.equal(await said(page, 'told'), 'Authorized: Acme <b>Exchange</b> (acme), test')
    assert.match(await execute(page, 'linkUser'), /200[\s\S]*"status": "linked"/)
    assert.match(await execute(page, 'putPlan', PLAN_TODAY), /200[\s\S]*"status": "active"/)
    assert.match(await execute(page, 'fireSandboxTranche'), /200[\s\S]*"execution_id": "exec_/)
    const polled = await execute(page, 'pollDue')
    assert.match(polled, /200[\s\S]*"execution_id": "exec_/)
    assert.match(polled, /curl -H "Authorization: Bearer \$KEY" -X 'GET' \\\n\s+'[^']*\/executions\/due'/)
    assert.match(await execute(page, 'advanceSandbox'), /200[\s\S]*"done": true/)

    const kept = await page.evaluate<string>(`(async () => JSON.stringify([
      document.documentElement.outerHTML, [...document.querySelectorAll('input, textarea')].map(({ value }) => value),
      Object.entries(localStorage), Object.entries(sessionStorage), document.cookie, await indexedDB.databases(),
      await caches.keys(), location.href, history.state, Object.keys(window), window.name ]))()`)
    assert.ok(!kept.includes(key.slice(9, -4)), 'the key is in the page')
    assert.deepEqual(
      page.requested().filter((to) => !to.startsWith(`${url}/`) || to.includes(key)),
      [],
    )
    // Nor would the browser store it by itself, or send it to a spelling checker.
    assert.deepEqual(
      await page.evaluate(`(({ name, type, autocomplete, spellcheck, form }) =>
        [name, type, autocomplete, spellcheck, form.autocomplete])(document.getElementById('key'))`),
      ['', 'text', 'off', false, 'off'],
    )
    // Forgotten on request, and by a reload of the page.
    await page.evaluate(`document.getElementById('forget').focus()`)
    await page.press('Enter')
    await until(page, `document.activeElement.id === 'key'`)
    assert.match(await execute(page, 'getMe'), /401[\s\S]*key_malformed/)
    await give(page, key)
    await until(page, `document.activeElement.id === 'forget'`)
    await page.goTo(`${url}/docs`)
    await until(page, isShown)
    assert.match(await execute(page, 'getMe'), /401[\s\S]*key_malformed/)
  })

  await t.test('a live key is refused before any call: on its own, in a header, and in a body', async () => {
    const page = await browser.open(`${url}/docs`)
    await until(page, isShown)
    const before = page.requested().length
    for (const given of [live, `Bearer ${live}`, `  ${live}\n`, 'sse_live_']) {
      await give(page, given)
      assert.match(await said(page, 'refused'), /^That is a live key: .*Use a test key\.$/)
      assert.equal(await page.evaluate(`document.getElementById('key').value`), '')
    }
    assert.match(await execute(page, 'linkUser', `{"partner_user_id": "${live}"}`), /live key.*not sent/)
    assert.equal(page.requested().length, before, 'something was sent')
    await give(page, 'sse_test_short')
    assert.equal(await said(page, 'refused'), 'A test key is sse_test_ and 46 letters and digits.')
    assert.equal(page.requested().length, before)
    // An unknown key is the service's to refuse, and is forgotten.
    await give(page, `sse_test_${'x'.repeat(46)}`)
    await until(page, `document.getElementById('refused').textContent.startsWith('The service')`)
    assert.equal(await said(page, 'refused'), 'The service answers 401: Invalid API key.')
    assert.deepEqual(page.requested().slice(before), [me])
    assert.match(await execute(page, 'getMe'), /key_malformed/)
  })
})

const PLAN_TODAY =
  '{"partner_user_id": "user-1", "partner_plan_id": "plan-1", "amount_usd": "60.00", "frequency": "daily"}'

// The operator's page in a real browser.

const TOKEN = 'correct-horse-battery'
const count = (page: Page, selector: string): Promise<number> =>
  page.evaluate(`document.querySelectorAll(${JSON.stringify(selector)}).length`)

test('the page of the operator loads nothing, breaks no rule of its own, fits a phone, and opens with the token', async (t) => {
  const browser = await openBrowser(t)
  if (!browser) return
  const { opsUrl } = await withBusiness(t)
  for (const path of ['/ops', '/ops?month=2026-01']) {
    const page = await browser.open(opsUrl + path, { width: 390, height: 844, phone: true })
    assert.deepEqual([page.problems(), page.requested()], [[], [opsUrl + path]])
    assert.equal(await count(page, 'script, img, iframe, form, [onerror]'), 0)
    assert.ok(await page.evaluate(FITS), `${path} scrolls sideways`)
    // The sheet is applied: its hash is the one the policy names.
    const background = await page.evaluate('getComputedStyle(document.body).backgroundColor')
    assert.equal(background, 'rgb(243, 245, 247)')
    // Beside the tables nothing is cut.
    const cut = `[...document.querySelectorAll('main *')].filter((one) => !one.closest('.wide') && one.clientWidth > 0 &&
      one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML.slice(0, 200))`
    assert.deepEqual(await page.evaluate(cut), [])
  }
  const { url } = await withBusiness(t, TOKEN)
  assert.equal(await count(await browser.open(`${url}/ops`), '#partners'), 0)
  const page = await browser.open(`${url}/ops`.replace('//', `//anybody:${TOKEN}@`))
  assert.equal(await count(page, '#partners'), 1)
  await page.follow(`[...document.links].find((link) => link.textContent === '2026-01').click()`)
  assert.match(await page.evaluate('document.body.innerText'), /starter \(volume\)[\s\S]*TOTAL/)
  assert.equal(await page.evaluate('document.cookie'), '')
})
