// A month as CSV, sent as it is read: as `billing export` writes it.

import { csvHeader, csvRow } from '../../billing/csv.ts'
import { EXPORTS, type ReportKind } from '../../billing/export.ts'
import { periodOf } from '../../core/month.ts'
import type { Store } from '../../store/store.ts'
import type { OpsAnswer } from '../ops-endpoints.ts'
import { Refusal } from '../refusal.ts'

/** Each reads for as long as its reader takes. */
const EXPORTS_AT_ONCE = 2
const CHUNK_CHARS = 64 * 1024

export type ExportAsked = { month: string; report: ReportKind; slug: string | null }

export function createExporter() {
  let running = 0

  /** Throws a Refusal: 429. */
  return async (store: Store, { month, report, slug }: ExportAsked): Promise<OpsAnswer> => {
    if (running >= EXPORTS_AT_ONCE)
      throw new Refusal(429, 'Two exports are under way.', { 'retry-after': '10' })
    running += 1
    const name = ['tranche', ...(slug === null ? [] : [slug]), month, report].join('-')
    const chunks = (async function* () {
      try {
        const filter = { slug, environment: 'live' as const }
        const tenant = slug === null ? null : await store.findTenant(slug, 'live')
        const period = await store.fixPeriod(periodOf(month), tenant)
        const { columns, pages } = EXPORTS[report]
        let text = csvHeader(columns)
        for await (const page of pages({ store, period, filter })) {
          for (const row of page) text += csvRow(columns, row)
          if (text.length < CHUNK_CHARS) continue
          yield text
          text = ''
        }
        yield text
      } finally {
        running -= 1
      }
    })()
    return {
      status: 200,
      headers: {
        'content-type': 'text/csv; charset=utf-8',
        'content-disposition': `attachment; filename="${name}.csv"`,
        'x-content-type-options': 'nosniff',
      },
      body: ReadableStream.from(chunks).pipeThrough(new TextEncoderStream()),
    }
  }
}
