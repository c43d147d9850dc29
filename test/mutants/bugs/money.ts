// Planted bugs in amounts: budgets and windows, bills, months and invoices.

import type { Bugs } from '../rows.ts'

export const MONEY: Bugs = {
  contract: {
    'budget-unchecked': {
      breaks: 'The file takes a window that has spent and reserved more than its budget.',
      find: 'check (reserved + spent + released <= budget), check (case when closed_at is null then released = 0 else reserved + spent + released = budget end)',
      replace: 'check (closed_at is null or closed_at >= 0)',
    },
    'refund-to-the-current-window': {
      breaks:
        "A failed purchase gives its money back to the plan's current window and not to its own. More than a budget is spent in one window.",
      find: 'join windows w on w.window_id = e.window_id\n     where e.execution_id',
      replace: 'join windows w on w.plan_id = e.plan_id and w.closed_at is null where e.execution_id',
    },
    'cancel-keeps-the-reservation': {
      breaks:
        "An operator's cancel leaves the reservation in its window: the money is neither spent nor free.",
      find: 'writeWindow(tx, window), addAudit(tx, entry, times.real),',
      replace: 'addAudit(tx, entry, times.real),',
    },
    'adjusted-window-not-written': {
      breaks: 'An adjustment does not reach its window. The window may spend again what was bought.',
      find: 'writeWindow(tx, made.window), decideAll(tx, executionId, { now, reason: made.adjustment.reason }),',
      replace: 'decideAll(tx, executionId, { now, reason: made.adjustment.reason }),',
    },
    'booked-purchase-is-bought-again': {
      breaks:
        'A purchase that an operator records stands outside the budget. The window that forgot it spends the same money again.',
      find: 'after: fill.usdAmount, reservation: amount })',
      replace: 'after: fill.usdAmount, reservation: ZERO_USD })',
    },
    'adjustments-not-billed': {
      breaks:
        'A month is billed without the adjustments of one of its users: the partner pays for what was never bought.',
      find: 'for (const row of [...byPlan, ...adjusted])',
      replace: 'for (const row of [...byPlan, ...adjusted.slice(1)])',
    },
    'tier-override-early': {
      breaks: 'A price agreed for a later month of the same year is charged at once.',
      find: 'select * from tier_overrides where partner_slug = :slug and from_month <= :month',
      replace:
        'select * from tier_overrides where partner_slug = :slug and substr(from_month, 1, 4) <= substr(:month, 1, 4)',
    },
    'credited-more-than-charged': {
      breaks: 'Credit notes, taken together, give back more than their invoice has charged.',
      find: 'if (net <= 0n || net > left)',
      replace: 'if (net <= 0n || net > invoice.net)',
    },
    'invoice-issued-twice': {
      breaks:
        'Whoever asks for the number of an invoice again gets another one. A customer is charged twice.',
      find: "'select * from invoices where partner_slug = :slug and month = :month and corrects is null'",
      replace: "'select * from invoices where partner_slug = :slug and month = :month and corrects = number'",
    },
    'invoice-of-a-running-month': {
      breaks: 'A month that still goes on is invoiced. Its later trades are never charged.',
      find: 'if (!isClosed)',
      replace: 'if (isClosed === null)',
    },
    'month-boundary-closed': {
      breaks:
        'The first millisecond of a month belongs to the month before as well. A trade at midnight is billed twice.',
      find: "const IN_PERIOD = 'd.recorded_at >= :start and d.recorded_at < :end'",
      replace: "const IN_PERIOD = 'd.recorded_at >= :start and d.recorded_at <= :end'",
    },
    'reported-month-gains-trades': {
      breaks:
        'A month that was reported as final is not closed to writes. Under a clock set back it gains a trade that was never billed.',
      find: 'return { fixed: { ...period, final }, reportedUntil: closes?.end ?? null, closes }',
      replace: 'return { fixed: { ...period, final }, reportedUntil: null, closes }',
    },
    'sandbox-closes-months-for-all': {
      breaks:
        'A sandbox that is led into the next month closes the present one for everybody, live business included.',
      find: 'if (closes && sandbox === null) {',
      replace: 'if (closes && sandbox !== -1) {',
    },
    'cell-spent-twice': {
      breaks: 'A window in a cell that has spent already opens with the whole budget once more.',
      find: 'const budget = (cell.budget - claimed) as Usd',
      replace: 'const budget = cell.budget',
    },
  },
  simulate: {
    'reset-on-equal-amount': {
      breaks:
        'A plan that is sent again with the same amount starts a new window. Each repetition of a request buys a whole budget more.',
      find: 'return reactivated || after.amount !== before.amount || after.frequency !== before.frequency',
      replace: 'return reactivated || after.amount !== undefined || after.frequency !== before.frequency',
    },
    'part-fill-taken-for-a-whole-one': {
      breaks: 'A part fill uses up its whole reservation. What was not bought is never tried again.',
      find: 'window: settle(window, execution.amount, spentBy(report))',
      replace:
        'window: settle(window, execution.amount, isFill(report) ? execution.amount : spentBy(report))',
    },
    'adjustment-from-the-first-report': {
      breaks:
        'An adjustment starts from what the trade said and leaves out the first adjustment since. The second one corrects what was corrected already.',
      find: 'const before = amountsOf(trade, adjustments)',
      replace: 'const before = amountsOf(trade, adjustments.slice(1))',
    },
    'half-up': {
      breaks: 'Half a cent is always rounded up. Over a year of months the fees are too high.',
      find: 'if (twice > denominator || (twice === denominator && quotient % 2n === 1n)) return quotient + 1n',
      replace: 'if (twice >= denominator) return quotient + 1n',
    },
    'minimum-on-top': {
      breaks: 'The monthly minimum is charged on top of the fee instead of in its place.',
      find: 'total: sum > minimumFee ? sum : minimumFee',
      replace: 'total: (sum + minimumFee) as Usd',
    },
    'shares-lose-a-cent': {
      breaks:
        'Of the cents that are left over when a fee is shared, the last goes to nobody. The shares do not add up to the bill.',
      find: 'for (const i of order.subarray(0, left)) shares[i] = (shares[i] ?? 0n) + 1n',
      replace: 'for (const i of order.subarray(0, Math.max(0, left - 1))) shares[i] = (shares[i] ?? 0n) + 1n',
    },
    'tier-reached-only-beyond': {
      breaks:
        'A tier begins above its minimum volume instead of at it. A partner that sells exactly what its contract names is billed at the dearer rate.',
      find: 'tiers.findLast((candidate) => candidate.minVolume <= volume) ??',
      replace: 'tiers.findLast((candidate) => candidate.minVolume < volume) ??',
    },
    'recorded-at-goes-back': {
      breaks:
        'A trade is dated by the clock alone. After a clock was set back it falls into a month that was billed already, and is never charged.',
      find: "when not exists (select 1 from sandboxes) then ${latestWhere('')}",
      replace: 'when not exists (select 1 from sandboxes) then null',
    },
  },
}
