// The answer to a call to /ops: the page, a download, or the sign-in form.

import { createHash } from 'node:crypto'
import type { H3Event } from 'h3'
import type { ReportKind } from '../../billing/columns.ts'
import { exportText, type Reading } from '../../billing/export.ts'
import { invoiceOf, invoiceText } from '../../billing/invoice.ts'
import { HTML } from '../../billing/invoice-layouts.ts'
import { bill } from '../../billing/statement.ts'
import { isMonth, periodOf } from '../../core/month.ts'
import type { Tenant } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import type { Store } from '../../store/store.ts'
import { ERROR_HEADER, ERROR_STATUS, type ErrorCode, errorCodeOf, PUT_OFF, Refusal } from '../error-codes.ts'
import { readText } from '../request.ts'
import { createOneAtATime } from '../turns.ts'
import { type Access, cookieOf, type Door, isFromOwnPage, type OpsAnswer, type PagePath } from './access.ts'
import { type Html, html, type Part } from './html.ts'
import {
  AS_IT_IS,
  createReader,
  monthParts,
  overviewParts,
  type Pasted,
  partnerParts,
  planParts,
  ROWS_SHOWN,
  signInForm,
} from './page.ts'
import { framedPage, PAGE_HEADERS, policyFor } from './page-style.ts'

type Asked = { event: H3Event; door: Door; path: PagePath }

/**
 * Returns null for callers who may not know that there is a page: where there is no token to sign in with, that is
 * everybody.
 */
export function createPages(access: Access, clock: () => Instant, pasted: Pasted = AS_IT_IS) {
  const read = createReader(clock)
  const downloads = createDownloads()
  const oneAtATime = createOneAtATime()
  const inTurn: Read = {
    ...read,
    readMonth: (...month) => oneAtATime(0, () => read.readMonth(...month)),
  }

  async function answer(asked: Asked, store: Store | null): Promise<OpsAnswer> {
    try {
      return await answerFrom(asked, store)
    } catch (error) {
      const putOff = error instanceof Problem ? PUT_OFF[error.code] : undefined
      if (!putOff) throw error
      // Only a signed-in caller reaches the database.
      const frame = { title: 'no database', signOut: access.hasToken, renews: true }
      const { code, message } = error as Problem
      return refused(errorCodeOf(code), page(framedPage(frame, unusable(message))), {
        'retry-after': putOff.retryAfter,
      })
    }
  }

  async function answerFrom({ event, door, path }: Asked, store: Store | null): Promise<OpsAnswer> {
    const { method } = event.req
    if (method === 'POST' && path === '/ops') return post(event, door)
    if (method !== 'GET')
      return refused('method_not_allowed', plain('Method Not Allowed'), { allow: 'GET, POST' })
    const frame = { signOut: access.hasToken }
    if (!access.admitsBrowser(event, door))
      return refused(
        event.req.headers.has('authorization') ? 'key_invalid' : 'key_malformed',
        signInPage(null),
      )
    if (store === null)
      return refused('starting', page(framedPage({ title: 'starting', ...frame, renews: true }, OPENING)))
    const asked = event.url.searchParams
    if (path !== '/ops') return downloaded(store, path, asked)
    const [title, parts] = (await drawn({ ...inTurn, pasted }, store, asked)) ?? ['not found', null]
    if (parts === null) return refused('route_not_found', page(framedPage({ title, ...frame }, NOTHING)))
    return page(framedPage({ title, ...frame, renews: asked.size === 0 }, ...parts))
  }

  /** A sign-in or a sign-out. */
  async function post(event: H3Event, door: Door): Promise<OpsAnswer> {
    if (!isFromOwnPage(event)) return refused('cross_site', plain('This form was sent by another site.'))
    const form = new URLSearchParams(await readText(event.req))
    const away = { status: 303, body: '', headers: { location: `/ops${event.url.search}` } }
    if (form.has('sign-out'))
      return { ...away, headers: { location: '/ops', 'set-cookie': cookieOf(event, '', 0) } }
    const signedIn = access.signIn(event, door, form.get('token') ?? '')
    if (signedIn.outcome === 'signed in')
      return { ...away, headers: { ...away.headers, 'set-cookie': signedIn.cookie } }
    return signedIn.outcome === 'too many'
      ? refused('rate_limited', signInPage(TOO_MANY), { 'retry-after': '60' })
      : refused('key_invalid', signInPage('That is not the ops token.'))
  }

  async function downloaded(store: Store, path: PagePath, asked: URLSearchParams): Promise<OpsAnswer> {
    const [month, slug, report] = [asked.get('month') ?? '', asked.get('partner'), asked.get('report')]
    const tenant = slug === null ? null : await store.findTenant(slug, 'live')
    if (!isMonth(month) || (slug !== null && tenant === null)) return NOT_FOUND
    if (path === '/ops/export')
      return isReport(report) ? downloads.csv(store, { month, tenant }, report) : NOT_FOUND
    return tenant === null ? NOT_FOUND : downloads.invoice(store, month, tenant)
  }

  return (asked: Asked, store: Store | null): Promise<OpsAnswer> | null =>
    asked.door === 'api' && !access.hasToken ? null : answer(asked, store)
}

type Read = ReturnType<typeof createReader>
type Drawing = Read & { pasted: Pasted }
type Drawn = [title: string, parts: Part[]]

/** The page that a caller asked for; null if there is none. */
async function drawn(read: Drawing, store: Store, asked: URLSearchParams): Promise<Drawn | null> {
  const [month, slug, plan] = ['month', 'partner', 'plan'].map((name) => asked.get(name))
  const number = wholeNumber(asked.get('page') ?? '1')
  if (number === null) return null
  if (month != null) {
    if (!isMonth(month)) return null
    return [month, monthParts(await read.readMonth(store, month, number))]
  }
  if (slug != null) return drawnPartner(read, store, { slug, plan: plan ?? null, asked })
  const overview = await read.overview(store)
  const search = (asked.get('q') ?? '').trim().slice(0, 100)
  const found = overview.partners.filter(
    ({ partnerSlug, name }) => has(partnerSlug, search) || has(name, search),
  )
  const shown = found.slice((number - 1) * ROWS_SHOWN, number * ROWS_SHOWN)
  return [
    'operations',
    overviewParts(overview, { partners: shown, found: found.length, page: number, search }, read.pasted),
  ]
}

async function drawnPartner(
  read: Read,
  store: Store,
  { slug, plan, asked }: { slug: string; plan: string | null; asked: URLSearchParams },
): Promise<Drawn | null> {
  const environment = asked.get('env') === 'test' ? 'test' : 'live'
  const after = wholeNumber(asked.get('after') ?? '0')
  const [partner, tenant] = [await store.findPartner(slug), await store.findTenant(slug, environment)]
  if (!partner || !tenant || after === null) return null
  if (plan !== null) {
    const view = await read.readPlan(store, plan, tenant)
    return view && [`${slug} ${environment} plan ${plan}`, planParts(view)]
  }
  const overview = await read.overview(store)
  const plans = await store.listPlans({ slug, environment }, { after, limit: ROWS_SHOWN })
  return [`partner ${slug}`, partnerParts({ partner, environment, plans }, overview)]
}

const OPENING = html`<section><p>The database is not open yet.</p></section>`
const unusable = (why: string): Html =>
  html`<section><p>The database cannot be used at present.</p><p>${why}</p></section>`
const TOO_MANY =
  'That is not the ops token, and too many wrong ones came from your network. Wait a minute before you try another.'
const NOTHING = html`<section><p>There is no page for this address.</p></section>`

const page = (body: Html): OpsAnswer => ({ status: 200, headers: PAGE_HEADERS, body: String(body) })
const plain = (words: string): OpsAnswer => ({
  status: 200,
  headers: { 'content-type': 'text/plain; charset=utf-8' },
  body: words,
})
const signInPage = (said: string | null): OpsAnswer =>
  page(framedPage({ title: 'sign in', signOut: false }, signInForm(said)))

/** What a person reads, as a refusal that a program can tell by its code. */
const refused = (code: ErrorCode, shown: OpsAnswer, headers: Record<string, string> = {}): OpsAnswer => ({
  status: ERROR_STATUS[code],
  headers: { ...shown.headers, ...headers, [ERROR_HEADER]: code },
  body: shown.body,
})

const NOT_FOUND = refused('route_not_found', plain('Not Found'))

const has = (text: string, part: string): boolean => text.toLowerCase().includes(part.toLowerCase())
const wholeNumber = (text: string): number | null => (/^\d{1,15}$/.test(text) ? Number(text) : null)
const isReport = (text: string | null): text is ReportKind =>
  text !== null && ['summary', 'users', 'trades'].includes(text)

// Downloads of a month, sent as they are read: what `billing export` and `billing invoice` write.

/** The most downloads at once: each goes on reading for as long as its client takes. */
const DOWNLOADS_AT_ONCE = 2

/** A null tenant means all live ones. */
type DownloadAsked = { month: string; tenant: Tenant | null }

function createDownloads() {
  let running = 0

  /** Throws a Refusal: 429. */
  function streamed(texts: AsyncIterable<string>): ReadableStream<Uint8Array> {
    if (running >= DOWNLOADS_AT_ONCE)
      throw new Refusal('too_many_calls', 'Two downloads are under way.', { 'retry-after': '10' })
    running += 1
    const counted = (async function* () {
      try {
        yield* texts
      } finally {
        running -= 1
      }
    })()
    return ReadableStream.from(counted).pipeThrough(new TextEncoderStream())
  }

  return {
    async csv(store: Store, { month, tenant }: DownloadAsked, report: ReportKind): Promise<OpsAnswer> {
      const reading = await readingOf(store, { month, tenant })
      const texts = (async function* () {
        for await (const { text } of exportText(reading, { report, format: 'csv' })) yield text
      })()
      const name = ['tranche', ...(tenant === null ? [] : [tenant.partnerSlug]), month, report].join('-')
      const headers = {
        'content-type': 'text/csv; charset=utf-8',
        'content-disposition': `attachment; filename="${name}.csv"`,
        'x-content-type-options': 'nosniff',
      }
      return { status: 200, headers, body: streamed(texts) }
    },

    /** Without names and addresses, which only a settings file has. */
    async invoice(store: Store, month: string, tenant: Tenant): Promise<OpsAnswer> {
      const { periods, filter } = await readingOf(store, { month, tenant })
      const [period] = periods
      if (!period) throw new RangeError(`no period of ${month}`)
      const scope = { store, period, filter }
      const { statement } = await bill(store, tenant, period)
      const texts = invoiceText(
        scope,
        await invoiceOf(scope, statement, { parties: null, isNumbered: false }),
        HTML,
      )
      const { value: head = '' } = await texts.next()
      const sheet = /<style>([\s\S]*?)<\/style>/.exec(head)?.[1] ?? ''
      const whole = (async function* () {
        yield head
        yield* texts
      })()
      const policy = policyFor(createHash('sha256').update(sheet).digest('base64'))
      const headers = { ...PAGE_HEADERS, 'content-security-policy': policy }
      return { status: 200, headers, body: streamed(whole) }
    },
  }
}

async function readingOf(store: Store, { month, tenant }: DownloadAsked): Promise<Reading> {
  const filter = { slug: tenant?.partnerSlug ?? null, environment: 'live' } as const
  return { store, periods: [await store.fixPeriod(periodOf(month), tenant)], filter }
}
