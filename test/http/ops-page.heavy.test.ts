// The page of the operator in a real browser: what a person sees of it, on a desk, in the dark and on a phone.

import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openBrowser, type Page } from '../support/browser.ts'
import { temporaryFolder } from '../support/database.ts'
import { HOSTILE, withBusiness } from './ops-page.ts'

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
        // Tables scroll by themselves; what one comes for is there without that.
        const inSight = (title: string) =>
          `[...document.querySelectorAll('th')].find((th) => th.innerText === '${title}').getBoundingClientRect().right <= innerWidth`
        for (const title of ['USD', 'Left USD', 'Last poll'])
          assert.ok(await page.evaluate(inSight(title)), `${name} hides ${title}`)
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
