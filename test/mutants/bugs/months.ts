// Planted bugs in what is billed: which month a trade belongs in, sums and lines, tiers and fees.

import type { Row } from '../rows.ts'

export const MONTHS: readonly Row[] = [
  {
    name: 'activity-of-any-environment',
    by: ['contract'],
    breaks:
      'The cancelled executions of a month are counted for all tenants: a statement shows the business of others.',
    find: 'where tenant_id = :tenant and cancelled_at is not null and cancelled_at >= :start and cancelled_at < :end',
    replace: 'where cancelled_at is not null and cancelled_at >= :start and cancelled_at < :end',
  },
  {
    name: 'recorded-at-of-one-tenant',
    by: ['contract'],
    breaks:
      "A trade is dated after the latest one of its own tenant alone. Under a clock set back it falls into a month that another tenant's trades have ended.",
    find: "when not exists (select 1 from sandboxes) then ${latestWhere('')}",
    replace:
      "when cast(:tenant as bigint) is not null then ${latestWhere('where tenant_id = cast(:tenant as bigint)')}",
  },
  {
    name: 'recorded-at-forgets-adjustments',
    by: ['contract'],
    breaks:
      'A trade may be dated before the latest adjustment. The lines of a month are not in the order they were made, and an export misses one.',
    find: [
      '`(select max(l.at) from (select max(recorded_at) as at from trades ${condition}',
      '   union all select max(recorded_at) from adjustments ${condition}) l)`',
    ],
    replace: '`(select max(recorded_at) from trades ${condition})`',
  },
  {
    name: 'month-boundary-closed',
    by: ['contract', 'simulate'],
    breaks:
      'The first millisecond of a month belongs to the month before as well. A trade at midnight is billed twice.',
    find: "const IN_PERIOD = 'd.recorded_at >= :start and d.recorded_at < :end'",
    replace: "const IN_PERIOD = 'd.recorded_at >= :start and d.recorded_at <= :end'",
  },
  {
    name: 'month-boundary-closed-in-the-lines',
    by: ['contract'],
    breaks:
      'The lines of a month go on into the first millisecond of the next. They do not add up to the statement.',
    find: 'where (d.recorded_at, d.execution_id) > (:at, :id) and d.recorded_at < :end and ${scope}',
    replace: 'where (d.recorded_at, d.execution_id) > (:at, :id) and d.recorded_at <= :end and ${scope}',
  },
  {
    name: 'lines-paged-by-time',
    by: ['contract'],
    breaks:
      'A page of trade lines begins behind the instant of the one before. Trades of the same millisecond are left out of the export.',
    find: 'where (d.recorded_at, d.execution_id) > (:at, :id) and d.recorded_at < :end and ${scope}',
    replace:
      "where (d.recorded_at > :at or (:id = '' and d.recorded_at = :at)) and d.recorded_at < :end and ${scope}",
  },
  {
    name: 'adjustment-line-repeated',
    by: ['contract'],
    breaks: 'A page of trade lines repeats the adjustment that ended the page before.',
    find: [
      'where (a.recorded_at, a.execution_id, a.adjustment_id) > (:at, :id, :number) and a.recorded_at < :end',
      '  and ${scope}',
    ],
    replace: [
      'where (a.recorded_at, a.execution_id, a.adjustment_id) >= (:at, :id, :number) and a.recorded_at < :end',
      '  and ${scope}',
    ],
  },
  {
    name: 'adjustments-not-billed',
    by: ['contract', 'simulate'],
    breaks:
      'A month is billed without the adjustments of one of its users: the partner pays for what was never bought.',
    find: 'for (const row of [...byPlan, ...adjusted.map(withoutTrades)]) {',
    replace: 'for (const row of [...byPlan, ...adjusted.slice(1).map(withoutTrades)]) {',
  },
  {
    name: 'reported-month-gains-trades',
    by: ['contract', 'simulate'],
    breaks:
      'A month that was reported as final is not closed to writes. Under a clock set back it gains a trade that was never billed.',
    find: 'return { fixed: { ...period, final }, reportedUntil: closes?.end ?? null, closes }',
    replace: 'return { fixed: { ...period, final }, reportedUntil: null, closes }',
  },
  {
    name: 'month-final-by-the-clock',
    by: ['contract'],
    breaks:
      'A month is final as soon as the clock says so. A clock that is ahead closes months that are not over.',
    find: 'const isConfirmed = ({ end }: Period, reached: Instant): boolean => reached >= end',
    replace:
      'const isConfirmed = ({ end }: Period, reached: Instant): boolean => reached >= Math.min(end, 0)',
  },
  {
    name: 'sandbox-closes-months-for-all',
    by: ['contract'],
    breaks:
      'A sandbox that is led into the next month closes the present one for everybody, live business included.',
    find: 'closes && sandbox === null ? tx.run(CLOSE_MONTH',
    replace: 'closes && sandbox !== -1 ? tx.run(CLOSE_MONTH',
  },
  {
    name: 'tier-override-early',
    by: ['contract', 'simulate'],
    breaks: 'A price agreed for a later month of the same year is charged at once.',
    find: 'select * from tier_overrides where partner_slug = :slug and from_month <= :month',
    replace:
      'select * from tier_overrides where partner_slug = :slug and substr(from_month, 1, 4) <= substr(:month, 1, 4)',
  },
  {
    name: 'minimum-due-in-the-past',
    by: ['contract', 'simulate'],
    breaks:
      'The end of a minimum that is taken back was never there. Months that were billed without one change afterwards.',
    find: 'select * from minimum_ends where partner_slug = :slug and from_month <= :month',
    replace:
      'select * from minimum_ends where partner_slug = :slug and substr(from_month, 1, 4) <= substr(:month, 1, 4)',
  },
  {
    name: 'invoice-of-a-running-month',
    by: ['contract'],
    breaks: 'A month that still goes on is invoiced. Its later trades are never charged.',
    find: 'if (closed?.closed !== 1n)',
    replace: 'if (closed === undefined)',
  },
  {
    name: 'invoice-issued-twice',
    by: ['contract'],
    breaks: 'Whoever asks for the number of an invoice again gets another one. A customer is charged twice.',
    find: "'select * from invoices where partner_slug = :slug and month = :month and corrects is null'",
    replace: "'select * from invoices where partner_slug = :slug and month = :month and corrects = number'",
  },
  {
    name: 'number-left-out',
    by: ['contract'],
    breaks: 'The numbers of invoices have gaps, for each of which the tax office wants a reason.',
    find: 'last === null || last < first ? first : last + 1',
    replace: 'last === null || last < first ? first : last + 2',
  },
  {
    name: 'invoice-kept-in-the-place-of-another',
    by: ['contract'],
    breaks: 'A restore gives the place of one invoice to another, and fails in the middle.',
    find: 'if (!partner || known || inPlace ||',
    replace: 'if (!partner || known ||',
  },
  {
    name: 'invoice-gone-unnoticed',
    by: ['contract'],
    breaks: 'The last invoice is deleted by hand, nobody hears of it, and its number is given again.',
    find: 'and not exists (select 1 from invoices i where i.number = x.number)',
    replace: 'and not exists (select 1 from invoices i where i.number <= x.number)',
  },
  {
    name: 'credited-more-than-charged',
    by: ['contract'],
    breaks: 'Credit notes, taken together, give back more than their invoice has charged.',
    find: 'if (net <= 0n || net > left)',
    replace: 'if (net <= 0n || net > invoice.net)',
  },
  {
    name: 'sandbox-dates-all-trades',
    by: ['contract'],
    breaks:
      'Trades are dated after those of a sandbox that lies ahead. Live purchases of today are billed next year.',
    find: "when not exists (select 1 from sandboxes) then ${latestWhere('')}",
    replace: "when 1 = 1 then ${latestWhere('')}",
  },
  {
    name: 'partner-billed-before-it-came',
    by: ['contract'],
    breaks:
      'A month lists partners that were created after it. They are billed a minimum for a month they were not there in.',
    find: 'where ${OF_TENANT} and (cast(:before as bigint) is null or p.created_at < :before)',
    replace: 'where ${OF_TENANT} and (cast(:before as bigint) is null or p.created_at <= :before)',
  },
  {
    name: 'adjustment-alone-repeated',
    by: ['contract'],
    breaks:
      'A page of adjustments repeats the one that ended the page before, and an invoice lists it twice.',
    find: 'number: after?.adjustment.adjustmentId ?? 0,',
    replace: 'number: (after?.adjustment.adjustmentId ?? 1) - 1,',
  },
  {
    name: 'lines-of-every-tenant',
    by: ['contract'],
    breaks: 'A partner reads the trades of all other partners together with its own.',
    find: "const OF_ONE = linesOf('t.tenant_id = :tenant')",
    replace: "const OF_ONE = linesOf(':tenant = :tenant')",
  },
  {
    name: 'late-fill-dated-by-its-acceptance',
    by: ['contract', 'simulate'],
    breaks:
      'A late fill forgets when its report came. It is dated by the day on which an operator accepted it.',
    find: 'received_at: trade.receivedAt',
    replace: 'received_at: null',
    in: 'common',
  },
  {
    name: 'server-late-fill-dated-by-its-acceptance',
    by: ['contract'],
    on: 'postgres',
    breaks:
      'On a server, a late fill forgets when its report came. It is dated by the day on which an operator accepted it.',
    find: 'received_at: trade.receivedAt',
    replace: 'received_at: null',
    in: 'postgres',
  },
  {
    name: 'fee-of-a-late-fill-not-summed',
    by: ['contract', 'simulate'],
    breaks:
      "The fee of a late fill that became an adjustment is in no sum. The month says that the partner's users paid less than they did.",
    find: 'const withoutTrades = (row: UserSums): LineSums => ({ ...row, trades: 0n })',
    replace: 'const withoutTrades = (row: UserSums): LineSums => ({ ...row, trades: 0n, fees: 0n })',
  },
  {
    name: 'tier-without-a-volume-at-zero',
    by: ['contract'],
    breaks:
      'A tier that is for overrides only is stored as if it began at 0.00. A month without volume can be charged its minimum.',
    find: 'min_volume_usd: tier.minVolume',
    replace: 'min_volume_usd: tier.minVolume ?? (0n as Usd)',
  },
  {
    name: 'place-of-a-tier-lost',
    by: ['contract'],
    breaks:
      'A new version of a tier takes a place of its own, behind all others. Whoever changes the price of the oldest tier moves its partners to another one.',
    find: 'versions.find((tier) => tier.name === name)?.place ?? 1 + Math.max(0, ...versions.map(({ place }) => place))',
    replace:
      'versions.find((tier) => tier.name === `${name}?`)?.place ?? 1 + Math.max(0, ...versions.map(({ place }) => place))',
  },
  {
    name: 'half-up',
    by: ['simulate'],
    breaks: 'Half a cent is always rounded up. Over a year of months the fees are too high.',
    find: 'if (twice > denominator || (twice === denominator && quotient % 2n === 1n)) return quotient + 1n',
    replace: 'if (twice >= denominator) return quotient + 1n',
  },
  {
    name: 'recorded-at-goes-back',
    by: ['simulate'],
    breaks:
      'A trade is dated by the clock alone. After a clock was set back it falls into a month that was billed already, and is never charged.',
    find: "when not exists (select 1 from sandboxes) then ${latestWhere('')}",
    replace: 'when not exists (select 1 from sandboxes) then null',
  },
  {
    name: 'minimum-on-top',
    by: ['simulate'],
    breaks: 'The monthly minimum is charged on top of the fee instead of in its place.',
    find: 'total: sum > minimumFee ? sum : minimumFee',
    replace: 'total: (sum + minimumFee) as Usd',
  },
  {
    name: 'shares-lose-a-cent',
    by: ['simulate'],
    breaks:
      'Of the cents that are left over when a fee is shared, the last goes to nobody. The shares do not add up to the bill.',
    find: 'for (const i of order.subarray(0, left)) shares[i] = (shares[i] ?? 0n) + 1n',
    replace: 'for (const i of order.subarray(0, Math.max(0, left - 1))) shares[i] = (shares[i] ?? 0n) + 1n',
  },
  {
    name: 'tier-reached-only-beyond',
    by: ['simulate'],
    breaks:
      'A tier begins above its minimum volume instead of at it. A partner that sells exactly what its contract names is billed at the dearer rate.',
    find: 'tiers.findLast((candidate) => candidate.minVolume <= volume) ??',
    replace: 'tiers.findLast((candidate) => candidate.minVolume < volume) ??',
  },
  {
    name: 'closed-month-without-a-bound',
    by: ['contract', 'simulate'],
    breaks:
      'The report of a month that is over leaves no bound behind. Under a clock set back the month gains a trade that was never billed.',
    find: 'report(tx, reportedUntil, sandbox),',
    replace: 'report(tx, fixed.final ? null : reportedUntil, sandbox),',
  },
  {
    name: 'server-clock-without-floor',
    by: ['simulate'],
    on: 'postgres',
    breaks:
      'On a server a write goes by the clock alone and not by what has been reported. A clock set back dates a trade into a month that was reported as final.',
    find: 'const PRESENT_SQL = `greatest(${NOW_SQL}, (select at from reported_until))`',
    replace: 'const PRESENT_SQL = `greatest(${NOW_SQL}, (select 0 from reported_until))`',
  },
  {
    name: 'of-equal-tiers-the-youngest',
    by: ['simulate'],
    breaks:
      'Of tiers that begin at the same volume the youngest applies. Whoever adds a tier moves every partner of that volume to it.',
    find: 'tiers.findLast((candidate) => candidate.minVolume <= volume) ??',
    replace:
      'tiers.find((one) => one.minVolume === tiers.findLast((other) => other.minVolume <= volume)?.minVolume) ??',
  },
  {
    name: 'month-below-zero-by-the-highest',
    by: ['simulate'],
    breaks:
      'A month of corrections is charged by the highest tier, because its volume reaches none. It pays the minimum of a tier that it is far below.',
    find: 'tiers.findLast((candidate) => candidate.minVolume <= volume) ??',
    replace: 'tiers.findLast((candidate) => volume < 0n || candidate.minVolume <= volume) ??',
  },
]
