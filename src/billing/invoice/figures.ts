// An invoice: one partner's live month with everything that explains its total. It is drawn from what never changes
// once the month is over, and from the names and addresses it is given.

import type { Statement } from '../../core/fees.ts'
import { plus, utcDate } from '../../core/instant.ts'
import { floorToCents, formatUsd, type Usd } from '../../core/money.ts'
import type { FixedPeriod } from '../../core/report-period.ts'

/** The sender or the recipient of an invoice: lines as they are printed. */
export type Party = { name: string; address: readonly string[]; taxId: string | null }
export type Parties = { issuer: Party & { notes: readonly string[] }; partner: Party }

/** The trades export that the invoice rests on: how to make it again, and what it must come to. */
export type Evidence = { command: string; rows: number; sha256: string }

export type Invoice = {
  statement: Statement
  /** What the statement covers: of a month that is not over, its figures so far. */
  period: FixedPeriod
  /** Null where no settings name them. */
  parties: Parties | null
  /**
   * What the adjustments of the month add up to, exactly and as they are printed; the rest of the volume is fills.
   */
  adjusted: { count: number; usd: Usd; printed: Usd }
  /** Null while the month can change: what is exported now is not what it will be. */
  evidence: Evidence | null
}

/**
 * Stable: the same whenever the invoice is made, and of no other. Null while the month can change, because a page with
 * a number is taken for the invoice.
 */
export const numberOf = ({ tenant, period, final }: Statement): string | null =>
  final ? `${tenant.partnerSlug}-${period.month}` : null

/** The day after the period: the first on which the invoice can be final. Null while the month can change. */
export const dateOf = ({ period, final }: Statement): string | null => (final ? utcDate(period.end) : null)

/** What the issuer says at the end, such as how to pay; nothing while there is nothing to pay. */
export const termsOf = ({ statement, parties }: Invoice): readonly string[] =>
  statement.final ? (parties?.issuer.notes ?? []) : []

/**
 * An amount as an invoice prints it. Partners report fractions of a cent; they are cut off, never rounded up, so that
 * no volume seems to reach a tier that it does not reach. A line of its own adds up what was cut.
 */
export const inCents = (amount: Usd): string => formatUsd(floorToCents(amount))

export const lastDayOf = ({ period }: Statement): string => utcDate(plus(period.end, -1))
export const firstDayOf = ({ period }: Statement): string => utcDate(period.start)

/** The volume of the month without its adjustments. */
export const fillsOf = ({ statement, adjusted }: Invoice): Usd =>
  (statement.activity.volume - adjusted.usd) as Usd
