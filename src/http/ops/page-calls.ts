// The answer to a call to /ops that is admitted: a view of the page, or a month as CSV.

import { exportText } from '../../billing/export.ts'
import { isMonth, periodOf } from '../../core/month.ts'
import { Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import type { Store } from '../../store/store.ts'
import { ERROR_HEADER, ERROR_STATUS, type ErrorCode, errorCodeOf, PUT_OFF, Refusal } from '../error-codes.ts'
import { createOneAtATime } from '../turns.ts'
import type { OpsAnswer, OpsPath } from './access.ts'
import { framedPage, type Html, html, PAGE_HEADERS } from './html.ts'
import {
  AS_IT_IS,
  createOverviewReader,
  monthParts,
  overviewParts,
  PAGE_REPORTS,
  type Pasted,
  readMonth,
} from './page.ts'

/** The answers throw a Refusal for an unknown page, and for one download too many. */
export function createPages(clock: () => Instant, pasted: Pasted = AS_IT_IS) {
  const readOverview = createOverviewReader(clock)
  const oneAtATime = createOneAtATime()
  const downloads = createDownloads()

  async function viewOf(store: Store, month: string | null): Promise<OpsAnswer> {
    if (month === null) {
      const parts = overviewParts(await readOverview(store), pasted)
      return page(framedPage({ title: 'operations', renews: true }, ...parts))
    }
    if (!isMonth(month)) throw NOT_FOUND
    const parts = monthParts(await oneAtATime(0, () => readMonth(store, month)), pasted)
    return page(framedPage({ title: month, renews: false }, ...parts))
  }

  return async (path: OpsPath, query: URLSearchParams, store: Store | null): Promise<OpsAnswer> => {
    if (store === null) return later('starting', 'starting', OPENING)
    try {
      return await (path === '/ops' ? viewOf(store, query.get('month')) : downloads(store, query))
    } catch (error) {
      const putOff = error instanceof Problem ? PUT_OFF[error.code] : undefined
      if (!putOff) throw error
      const { code, message } = error as Problem
      return later(errorCodeOf(code), 'no database', unusable(message), { 'retry-after': putOff.retryAfter })
    }
  }
}

const OPENING = html`<section><p>The database is not open yet.</p></section>`
const unusable = (why: string): Html =>
  html`<section><p>The database cannot be used at present.</p><p>${why}</p></section>`

const page = (body: Html): OpsAnswer => ({ status: 200, headers: PAGE_HEADERS, body: String(body) })

/** A page that reloads by itself: a refusal that a program recognises by its code. */
const later = (
  code: ErrorCode,
  title: string,
  words: Html,
  headers: Record<string, string> = {},
): OpsAnswer => ({
  status: ERROR_STATUS[code],
  headers: { ...PAGE_HEADERS, ...headers, [ERROR_HEADER]: code },
  body: String(framedPage({ title, renews: true }, words)),
})

const NOT_FOUND = new Refusal('route_not_found', 'Not Found')

// A month as CSV, sent as it is read, with the content of `billing export`.

/** The most downloads at once: each continues reading for as long as its client takes. */
const DOWNLOADS_AT_ONCE = 2

function createDownloads() {
  let running = 0

  function streamed(texts: AsyncIterable<{ text: string }>): ReadableStream<Uint8Array> {
    if (running >= DOWNLOADS_AT_ONCE)
      throw new Refusal('too_many_calls', 'Two downloads are under way.', { 'retry-after': '10' })
    running += 1
    const counted = (async function* () {
      try {
        for await (const { text } of texts) yield text
      } finally {
        running -= 1
      }
    })()
    return ReadableStream.from(counted).pipeThrough(new TextEncoderStream())
  }

  return async (store: Store, query: URLSearchParams): Promise<OpsAnswer> => {
    const [month, slug] = [query.get('month') ?? '', query.get('partner')]
    const report = PAGE_REPORTS.find((one) => one === query.get('report'))
    const tenant = slug === null ? null : await store.findTenant(slug, 'live')
    if (!isMonth(month) || report === undefined || (slug !== null && tenant === null)) throw NOT_FOUND
    const period = await store.fixPeriod(periodOf(month), tenant)
    const reading = { store, periods: [period], filter: { slug, environment: 'live' } as const }
    const name = ['tranche', ...(slug === null ? [] : [slug]), month, report].join('-')
    const headers = {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="${name}.csv"`,
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
    }
    return { status: 200, headers, body: streamed(exportText(reading, { report, format: 'csv' })) }
  }
}
