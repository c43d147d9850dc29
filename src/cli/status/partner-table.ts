// The partners of a status as a table: when each was last heard from, what waits for it, and what became of its orders.

import { counted } from '../../core/counted.ts'
import { spellSpan } from '../../core/duration-words.ts'
import { formatInstant, type Instant } from '../../core/instant.ts'
import { cut } from '../../core/text-lengths.ts'
import type { PartnerSeen } from '../../core/vitals.ts'
import type { FindingJson } from '../shared/findings.ts'
import { type Column, renderTable } from '../terminal/table.ts'
import { secondsSince, spellSeconds } from './age-seconds.ts'

export const partnerJson = (
  { tenant, held, polledAt, confirmedAt, due, oldestDueAt, orders }: PartnerSeen,
  now: Instant,
) => ({
  partner_slug: tenant.partnerSlug,
  held,
  last_poll_at: polledAt && formatInstant(polledAt),
  last_confirm_at: confirmedAt && formatInstant(confirmedAt),
  due_backlog: due,
  oldest_due_age_seconds: secondsSince(oldestDueAt, now),
  orders_24h: {
    filled: orders.filled,
    failed: orders.failed,
    commonest_failure_reason: orders.commonestReason,
  },
})

type Row = ReturnType<typeof partnerJson>
type Json = { at: string; by_partner: Row[]; findings: Pick<FindingJson, 'partner_slug'>[] }

/** As many as fit on a screen beside the rest; `--json` has them all. */
const PARTNERS_SHOWN = 10

/** A reason is the partner's own text, of any length: --json has all of it. */
const REASON_SHOWN = 40

/** Nothing without a partner that does anything; else the table, those that findings name first. */
export async function partnerTable({ at, by_partner, findings }: Json): Promise<string[]> {
  const named = new Set(findings.map(({ partner_slug }) => partner_slug))
  const busy = by_partner.filter(
    ({ partner_slug: slug, due_backlog: due, last_poll_at: polled, last_confirm_at: confirmed }) =>
      named.has(slug) || due > 0 || polled !== null || confirmed !== null,
  )
  if (busy.length === 0) return []
  const rows = busy.sort((a, b) => Number(named.has(b.partner_slug)) - Number(named.has(a.partner_slug)))
  const more = rows.length - PARTNERS_SHOWN
  const table = await renderTable(columnsAt(Date.parse(at)), rows.slice(0, PARTNERS_SHOWN))
  return [more > 0 ? `${table}\n${counted(more, 'more partner')}: tranche status --json` : table]
}

function columnsAt(now: number): Column<Row>[] {
  const ago = (then: string | null): string =>
    then === null ? 'never' : `${spellSpan(now - Date.parse(then))} ago`
  return [
    { title: 'PARTNER', of: (row) => row.partner_slug },
    { title: 'LAST POLL', of: (row) => ago(row.last_poll_at) },
    { title: 'LAST CONFIRM', of: (row) => ago(row.last_confirm_at) },
    { title: 'DUE', of: (row) => row.due_backlog, right: true },
    {
      title: 'OLDEST',
      of: ({ oldest_due_age_seconds: age }) => (age === null ? null : spellSeconds(age)),
    },
    { title: 'FILLED 24 H', of: (row) => row.orders_24h.filled, right: true },
    { title: 'FAILED 24 H', of: (row) => row.orders_24h.failed, right: true },
    {
      title: 'MOST OFTEN',
      of: ({ orders_24h: { commonest_failure_reason: why } }) => why && cut(why, REASON_SHOWN),
    },
  ]
}
