// /docs as a reader opens it: the executable's own page in a real browser, which asks this machine and nobody else.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { VIEWER } from '../../src/resources.ts'
import { DESCRIPTION } from '../openapi/described.ts'
import { openBrowser, type Page } from '../support/browser.ts'
import { temporaryFolder } from '../support/database.ts'
import { startServe } from '../support/process.ts'

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
