// Downloads of a month, sent as they are read: what `billing export` and `billing invoice` write.

import { createHash } from 'node:crypto'
import type { ReportKind } from '../../billing/export.ts'
import { type Reading, textOf } from '../../billing/export-text.ts'
import { invoiceOf, pageOf } from '../../billing/invoice/from-ledger.ts'
import { HTML } from '../../billing/invoice/html.ts'
import { periodOf } from '../../core/month.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Store } from '../../store/store.ts'
import { Refusal } from '../refusal.ts'
import { PAGE_HEADERS, policyFor } from './headers.ts'
import type { OpsAnswer } from './paths.ts'

/** Each goes on reading for as long as its client takes. */
const DOWNLOADS_AT_ONCE = 2

/** A null tenant means all live ones. */
export type DownloadAsked = { month: string; tenant: Tenant | null }

export function createDownloads() {
  let running = 0

  /** Throws a Refusal: 429. */
  function streamed(texts: AsyncIterable<string>): ReadableStream<Uint8Array> {
    if (running >= DOWNLOADS_AT_ONCE)
      throw new Refusal(429, 'Two downloads are under way.', { 'retry-after': '10' })
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
        for await (const { text } of textOf(reading, { report, format: 'csv' })) yield text
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
      const texts = pageOf(scope, await invoiceOf(scope, tenant, null), HTML)
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
