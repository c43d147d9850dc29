// The invoice in a real browser: it fits its page, prints on A4, stays light, and sends no requests.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { openBrowser } from '../support/browser.ts'
import { type Office, openOffice, utc } from './books.ts'

/** A4, in points. */
const PAGE = [595, 842]
const LONG = 'x'.repeat(255)
const ADJUSTED = 30

/** As long as those of docs/billing.md: such an invoice is one page, not one and the last two lines on another. */
const PARTY = {
  name: 'Acme Exchange Ltd',
  address: ['1 High Street', 'London EC1A 1AA', 'United Kingdom'],
  tax_id: 'GB 987 654 321',
}
const SETTINGS = {
  issuer: { ...PARTY, name: 'Tranche Services GmbH', notes: ['Please pay within 14 days.'] },
  partners: {
    acme: PARTY,
    bolt: { name: `<img src=x> ${'W'.repeat(180)}`, address: ['<b>&amp;</b>', LONG.slice(60)] },
  },
}

/** acme has a plain month with an adjustment, bolt a month of nothing but long words and many of them. */
async function twoMonths(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 9), ['acme', 'bolt'])
  const trade = (i: number, order: string) => ({ user: 'u', at: utc(2026, 9, 5, 0, i), usd: '10.00', order })
  office.enter('acme', 'live', [trade(0, 'A-1'), trade(1, 'A-2')])
  office.enter(
    'bolt',
    'live',
    Array.from({ length: ADJUSTED }, (_, i) => trade(i, `${LONG.slice(0, 250)}${i}`)),
  )
  office.setClock(utc(2026, 9, 6))
  for (const { execution_id, partner_slug } of (await office.json('execution list --json')).slice(1)) {
    const reason =
      partner_slug === 'acme' ? 'the venue filled 9.00' : `<script src="https://x.example"> ${LONG}`
    const amounts = ['--usd', '9.00', '--btc', '0.0009', '--reason', reason]
    await office.read(['trade', 'adjust', execution_id, ...amounts])
  }
  office.setClock(utc(2026, 10, 2))
  return office
}

/** The size of each page of a Chromium PDF, in whole points. */
function pagesOf(pdf: string): number[][] {
  const boxes = [...pdf.matchAll(/\/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]/g)]
  assert.equal(boxes.length, [...pdf.matchAll(/\/Type \/Page\b/g)].length)
  return boxes.map(([, width, height]) => [Math.round(Number(width)), Math.round(Number(height))])
}

test('an invoice prints on A4 and shows in any window, whatever its words are', async (t) => {
  const browser = await openBrowser(t)
  if (!browser) return
  const office = await twoMonths(t)
  const settings = office.settings(SETTINGS)
  for (const [slug, least, most] of [
    ['acme', 1, 1],
    ['bolt', 3, 40],
  ] as const) {
    const file = join(office.folder, `${slug}.html`)
    await office.read(
      `billing invoice --partner ${slug} --month 2026-10 --settings ${settings} --output ${file}`,
    )
    const url = pathToFileURL(file).href
    for (const look of [
      { width: 900, dark: true },
      { width: 390, phone: true },
    ]) {
      const page = await browser.open(url, look)
      assert.deepEqual([page.problems(), page.requested()], [[], [url]], slug)
      const [wide, background, scripts] = await page.evaluate<[boolean, string, number]>(
        `[document.documentElement.scrollWidth > document.documentElement.clientWidth,
          getComputedStyle(document.body).backgroundColor,
          document.querySelectorAll('script, img, link, b').length]`,
      )
      assert.deepEqual([wide, background, scripts], [false, 'rgb(255, 255, 255)', 0], `${slug} ${look.width}`)
      await page.screenshot(join(office.folder, `${slug}-${look.width}.png`))
      if (look.phone) continue
      await page.pdf(join(office.folder, `${slug}.pdf`))
      const pages = pagesOf(readFileSync(join(office.folder, `${slug}.pdf`), 'latin1'))
      assert.ok(least <= pages.length && pages.length <= most, `${slug}: ${pages.length} pages`)
      for (const size of pages) assert.deepEqual(size, PAGE)
    }
  }
})
