// The pages as a person sees them in a real browser: the API description, and what an operator is shown.

import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { VIEWER } from '../../src/resources.ts'
import { DESCRIPTION } from '../openapi/described.ts'
import { openBrowser, type Page } from '../support/browser.ts'
import { temporaryFolder } from '../support/database.ts'
import { startServe } from '../support/process.ts'
import { HOSTILE, withBusiness } from './ops-page.ts'

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

test('the page of the API', async (t) => {
  const { url } = await startServe(t, [], { cwd: temporaryFolder(t) })

  await t.test(
    'has every operation, asks nobody else, breaks no rule of its policy and calls nothing',
    async (t) => {
      const browser = await openBrowser(t)
      if (!browser) return
      // Dark from its start, and light when its reader has changed that.
      const page = await browser.open(`${url}/docs`, { dark: true })
      await until(page, IS_DARK)
      await page.prefer('light')
      await until(page, `!${IS_DARK}`)
      await until(page, `document.querySelectorAll('.opblock').length === ${OPERATIONS.length}`)
      assert.deepEqual((await shown(page)).sort(), OPERATIONS.toSorted())
      // Those two alone: all of them keep the browser busy for a minute on a slow machine.
      for (const id of ['getPlan', 'pollDue'])
        await page.evaluate(`document.querySelector('[id$="-${id}"] .opblock-summary-control').click()`)
      await until(page, `document.querySelectorAll('.opblock.is-open .responses-wrapper').length === 2`)
      const text = await page.evaluate<string>('document.body.innerText')
      for (const said of [
        'An addition to the contract.',
        'Plan not found.',
        'idempotency_key',
        'Too many requests.',
      ])
        assert.ok(text.includes(said), said)
      assert.equal(
        await page.evaluate(
          `document.querySelectorAll('.try-out, .execute, .authorize, input[type=password]').length`,
        ),
        0,
      )
      const links = await page.evaluate<string[]>(`[...document.links].map(({ href }) => href)`)
      assert.deepEqual(
        links.filter((href) => !href.startsWith(`${url}/`)),
        [],
      )
      assert.deepEqual(page.problems(), [])
      const asked = ['/docs', '/docs/viewer.css', '/docs/viewer.js', '/docs/start.js', '/openapi.json']
      assert.deepEqual(page.requested().sort(), asked.map((path) => url + path).sort())

      // What the policy is for: it forbids other addresses even to a script that got into the page.
      await page.evaluate(`fetch('http://127.0.0.1:9/').catch(() => {})`)
      assert.match(page.problems().join('\n'), /Content Security Policy/)
      if (process.env.SCREENSHOTS) await page.screenshot(join(process.env.SCREENSHOTS, 'docs-open.png'))
    },
  )

  await t.test('is embedded as the package has it, and answered to GET alone', async () => {
    for (const [path, name] of [
      ['viewer.js', 'swagger-ui-bundle.js'],
      ['viewer.css', 'swagger-ui.css'],
    ] as const) {
      const answer = await fetch(`${url}/docs/${path}`)
      assert.equal(answer.headers.get('content-encoding'), 'gzip')
      assert.ok(Number(answer.headers.get('content-length')) < 500_000)
      const own = readFileSync(join(import.meta.dirname, '../../node_modules', VIEWER, name))
      assert.ok(own.equals(await answer.bytes()), path)
    }
    for (const path of ['/docs', '/docs/start.js', '/docs/viewer.js']) {
      const { headers, status } = await fetch(url + path)
      assert.equal(status, 200)
      assert.match(
        headers.get('content-security-policy') ?? '',
        /^default-src 'none'; script-src 'self'; style-src 'self';/,
      )
      assert.equal(headers.get('x-content-type-options'), 'nosniff')
      assert.equal(headers.get('cache-control'), 'no-store')
      assert.notEqual(headers.get('x-request-id'), null)
      for (const method of ['HEAD', 'POST', 'DELETE', 'OPTIONS']) {
        const refused = await fetch(url + path, { method })
        assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET'], `${method} ${path}`)
      }
    }
    for (const path of ['/docs/', '/docs/x', '/docs/viewer', '/DOCS', '/docs/%76iewer.js'])
      assert.equal((await fetch(url + path)).status, 401, `${path} is nobody's, like any other`)
  })
})

// The page of the operator in a real browser: what a person sees of it, on a desk, in the dark and on a phone.

const TOKEN = 'correct-horse-battery'
const count = (page: Page, selector: string): Promise<number> =>
  page.evaluate(`document.querySelectorAll(${JSON.stringify(selector)}).length`)
const styleOf = (page: Page, selector: string, property: string): Promise<string> =>
  page.evaluate(`getComputedStyle(document.querySelector(${JSON.stringify(selector)})).${property}`)

test('the page of the operator in a browser', async (t) => {
  const browser = await openBrowser(t)
  if (!browser) return
  await t.test(
    'the page loads nothing, breaks no rule of its own, runs nobody’s script, and fits a phone',
    async (t) => {
      const { opsUrl } = await withBusiness(t)
      // To look at all of them, name a folder; to draw one takes the browser longer than all else.
      const { OPS_SCREENSHOTS: folder } = process.env
      const picture = async (page: Page, name: string) =>
        folder && (await page.screenshot(join(folder, `${name}.png`)))
      const looks = { phone: { width: 390, height: 844, phone: true }, dark: { dark: true }, desk: {} }
      let last: Page | null = null
      for (const [name, look] of Object.entries(looks)) {
        const page: Page = await browser.open(`${opsUrl}/ops`, look)
        last = page
        assert.deepEqual(page.problems(), [], name)
        assert.deepEqual(page.requested(), [`${opsUrl}/ops`], name)
        assert.equal(await count(page, 'script, img, iframe, [onerror]'), 0)
        assert.equal(await count(page, 'h2'), 6)
        assert.equal(await count(page, 'svg .dot'), 2)
        const text = await page.evaluate<string>('document.body.innerText')
        assert.ok(text.includes(HOSTILE.replace('\u202e', '\\u202e')), text)
        // The sheet is in force: its hash is the one the policy names.
        const dark = name === 'dark'
        assert.equal(
          await styleOf(page, 'body', 'backgroundColor'),
          dark ? 'rgb(17, 20, 24)' : 'rgb(243, 245, 247)',
        )
        assert.equal(
          await styleOf(page, '.dot.filled', 'stroke'),
          dark ? 'rgb(95, 206, 147)' : 'rgb(26, 127, 75)',
        )
        assert.ok(
          await page.evaluate('document.documentElement.scrollWidth <= innerWidth'),
          `${name} scrolls sideways`,
        )
        // What one comes for is in sight; on a phone nothing at all is cut, and no time is broken over two lines.
        const inSight = (title: string) =>
          `[...document.querySelectorAll('td[data-of="${title}"] > span')].every((one) => one.getBoundingClientRect().right <= innerWidth)`
        for (const title of [
          'USD',
          'Left USD',
          'Last poll',
          ...(name === 'phone' ? ['Status', 'Failed in 24 h'] : []),
        ])
          assert.ok(await page.evaluate(inSight(title)), `${name} hides ${title}`)
        if (name === 'phone') {
          assert.deepEqual(
            await page.evaluate(
              `[...document.querySelectorAll('main *')].filter((one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML.slice(0, 200))`,
            ),
            [],
          )
          assert.deepEqual(
            await page.evaluate(
              `[...document.querySelectorAll('td[data-of="Fired"] > span, figcaption span')].filter((one) => one.getBoundingClientRect().height > 30).map((one) => one.innerText)`,
            ),
            [],
          )
          assert.doesNotMatch(
            text.replaceAll(/\d\.\d{8} ?BTC|BTC\s+[\d.]+/g, ''),
            /\d\.\d{3,} USD|Average price\s+\d+\.\d{3}/,
          )
        }
        await picture(page, name)
        if (name !== 'phone') continue
        const drawn = join(temporaryFolder(t), 'phone.png')
        await page.screenshot(drawn)
        assert.ok(statSync(drawn).size > 20_000)
      }
      const page = last ?? assert.fail()
      await page.follow(`[...document.links].find((link) => link.textContent.startsWith('<img')).click()`)
      assert.equal(
        await page.evaluate('document.querySelector("h2").innerText'),
        HOSTILE.replace('\u202e', '\\u202e'),
      )
      await picture(page, 'plan')
      await page.follow(`[...document.links].find((link) => link.textContent === 'globex').click()`)
      assert.match(await page.evaluate('location.search'), /partner=globex/)
      await picture(page, 'partner')
      await page.follow(`[...document.links].find((link) => link.textContent === 'invoice').click()`)
      assert.equal(await page.evaluate('document.title'), 'globex, 2026-01, provisional')
      await page.goTo(`${opsUrl}/ops?month=2026-01`)
      assert.match(await page.evaluate('document.body.innerText'), /starter \(volume\)/)
      await picture(page, 'month')
      assert.deepEqual(page.problems(), [])
    },
  )

  await t.test(
    'a person signs in by the form, stays so, and signs out; no script could read the cookie',
    async (t) => {
      const { url } = await withBusiness(t, TOKEN)
      const page = await browser.open(`${url}/ops?partner=globex`)
      const give = (token: string) =>
        page.follow(
          `(document.querySelector('#token').value = ${JSON.stringify(token)}, document.querySelector('button').click())`,
        )
      await give('wrong')
      assert.match(await page.evaluate('document.body.innerText'), /That is not the ops token\./)
      await give(TOKEN)
      assert.match(await page.evaluate('location.search'), /partner=globex/)
      assert.equal(await page.evaluate('document.cookie'), '')
      await page.goTo(`${url}/ops`)
      assert.equal(await count(page, '#partners'), 1)
      await page.follow(`document.querySelector('header button').click()`)
      assert.equal(await count(page, '#token'), 1)
      await page.goTo(`${url}/ops`)
      assert.equal(await count(page, '#token'), 1)
    },
  )
})
