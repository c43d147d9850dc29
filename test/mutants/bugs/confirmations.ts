// Planted bugs in what a partner reports and an operator decides: confirmations, orders, late fills, adjustments.

import type { Row } from '../rows.ts'

export const CONFIRMATIONS: readonly Row[] = [
  {
    name: 'confirm-of-any-tenant',
    by: ['contract'],
    breaks: 'A confirmation finds the execution of any tenant. A partner can end the purchases of another.',
    find: '${SELECT_EXECUTION} where e.tenant_id = :tenant and e.execution_id = :execution_id',
    replace: '${SELECT_EXECUTION} where e.execution_id = :execution_id',
  },
  {
    name: 'order-id-across-tenants',
    by: ['contract', 'simulate'],
    breaks:
      'An order id is taken for everybody once one tenant has used it. The confirmation of another partner is refused, and what it bought is not on the books.',
    find: 'select execution_id from trades where tenant_id = :tenant and partner_order_id = :order',
    replace: 'select execution_id from trades where partner_order_id = :order',
  },
  {
    name: 'order-id-not-unique',
    by: ['contract'],
    breaks:
      'Nothing in the file keeps one order from being recorded twice. One purchase would be billed as two.',
    find: 'unique (tenant_id, partner_order_id),',
    replace: '',
  },
  {
    name: 'kept-report-twice',
    by: ['contract'],
    breaks: 'A refused report can be kept twice. An operator who accepts both bills one purchase as two.',
    edits: [
      {
        find: ['accepted_at integer,', 'unique (execution_id, fingerprint)'],
        replace: 'accepted_at integer',
      },
      {
        find: "keep: db.prepare(`${insertInto('late_reports')} on conflict (execution_id, fingerprint) do nothing`)",
        replace: "keep: db.prepare(insertInto('late_reports'))",
      },
      {
        find: "const KEEP = query(`${insertInto('late_reports')} on conflict (execution_id, fingerprint) do nothing`)",
        replace: "const KEEP = query(insertInto('late_reports'))",
      },
    ],
  },
  {
    name: 'refund-to-the-current-window',
    by: ['contract', 'simulate'],
    breaks:
      "A failed purchase gives its money back to the plan's current window and not to its own. More than a budget is spent in one window.",
    find: 'window: WINDOW_OF,',
    replace: [
      'window: query<WindowRow>(`select * from windows where closed_at is null',
      '  and plan_id = (select plan_id from executions where execution_id = :execution_id)`),',
    ],
  },
  {
    name: 'late-report-kept-again',
    by: ['contract'],
    breaks: 'A report that is kept already is kept again each time it is repeated.',
    edits: [
      {
        find: ['accepted_at integer,', 'unique (execution_id, fingerprint)'],
        replace: 'accepted_at integer',
      },
      {
        find: "if (keeping === 'new') sql.keep.run(",
        replace: "if (keeping !== 'counted') sql.keep.run(",
      },
      {
        find: "keep: db.prepare(`${insertInto('late_reports')} on conflict (execution_id, fingerprint) do nothing`)",
        replace: "keep: db.prepare(insertInto('late_reports'))",
      },
    ],
  },
  {
    name: 'count-of-unknown-reports-never-ends',
    by: ['contract'],
    breaks:
      'An operator who has asked the partner ends nothing. Check warns of the same reports for ever, and a new one is not noticed beside them.',
    find: 'tx.together(countNoUnknown(tx, tenant), addAudit(tx, entryOf(unkept), real))',
    replace: 'addAudit(tx, entryOf(unkept), real)',
  },
  {
    name: 'unkept-reports-not-counted',
    by: ['contract'],
    breaks: 'Reports of fills beyond those kept are not counted. Nobody learns that more was bought.',
    find: "if (keeping === 'counted') sql.count.run({ execution_id: execution.executionId })",
    replace: "if (keeping === 'counted') return",
  },
  {
    name: 'accepted-order-stays-open',
    by: ['contract'],
    breaks:
      'Accepting a late fill leaves other reports that say the same of its order to be decided. They are accepted too, and one purchase is billed twice.',
    find: 'where decided_at is null and exists (',
    replace: 'where decided_at is null and accepted_at is not null and exists (',
  },
  {
    name: 'accept-late-not-audited',
    by: ['contract'],
    breaks: 'Accepting a late fill leaves no audit entry. Money was moved, and nobody knows by whom.',
    find: ['yield* addAudit(tx, entryOf(made, late), times.real)', 'return { ...made, waiting'],
    replace: ['entryOf(made, late)', 'return { ...made, waiting'],
  },
  {
    name: 'dismiss-all-for-one',
    by: ['contract'],
    breaks: 'Dismissing one late fill dismisses all of its execution. A real purchase is never billed.',
    find: 'const counted = reportId === null && (yield* decideAll(tx, executionId, decided)).counted',
    replace: 'const counted = (yield* decideAll(tx, executionId, decided)).counted',
  },
  {
    name: 'adjusted-window-not-written',
    by: ['contract'],
    breaks: 'An adjustment does not reach its window. The window may spend again what was bought.',
    find: [
      'writeWindow(tx, made.window),',
      'decideAll(tx, executionId, { now, reason: made.adjustment.reason }),',
    ],
    replace: 'decideAll(tx, executionId, { now, reason: made.adjustment.reason }),',
  },
  {
    name: 'adjustment-leaves-late-fills',
    by: ['contract'],
    breaks:
      'An adjustment leaves the late fills of its execution undecided. Accepted later, the same purchase is billed again.',
    find: 'decideAll(tx, executionId, { now, reason: made.adjustment.reason }),',
    replace: '',
  },
  {
    name: 'cancel-forgets-sent',
    by: ['contract'],
    breaks:
      'A cancel ends only what was never delivered. An execution that is out stays open on a plan that is over, and is delivered again.',
    find: 'e.window_id = w.window_id and ${IS_OPEN}`',
    replace: "e.window_id = w.window_id and ${IS_OPEN} and e.status = 'pending'`",
  },
  {
    name: 'cancel-keeps-the-reservation',
    by: ['contract'],
    breaks: "An operator's cancel leaves the reservation in its window: the money is neither spent nor free.",
    find: ['writeWindow(tx, window),', 'addAudit(tx, entry, times.real),'],
    replace: 'addAudit(tx, entry, times.real),',
  },
  {
    name: 'recorded-report-still-waits',
    by: ['contract', 'simulate'],
    breaks:
      'A purchase that was reported while its execution was pending is confirmed after the poll, and its kept report goes on waiting for a decision. An operator accepts what is billed already.',
    find: 'if (settles !== null) recorded.decide.run(',
    replace: 'if (settles === 0) recorded.decide.run(',
  },
  {
    name: 'server-recorded-report-still-waits',
    by: ['contract'],
    on: 'postgres',
    breaks:
      'On a server, a purchase that was reported while its execution was pending is confirmed after the poll, and its kept report goes on waiting for a decision. An operator accepts what is billed already.',
    find: '({ settles }) => settles !== null &&',
    replace: '({ settles }) => settles === 0 &&',
  },
  {
    name: 'accepted-while-pending-handed-out',
    by: ['contract', 'simulate'],
    breaks:
      'Accepting a report of a pending execution leaves it pending. It is handed out, and bought again.',
    find: "if (made.kind === 'recorded') yield* record(tx, tenant, made)",
    replace: [
      "if (made.kind === 'recorded')",
      '  yield* record(tx, tenant, { ...made, execution: { ...made.execution, status: execution.status } })',
    ],
  },
  {
    name: 'decision-without-its-reason',
    by: ['contract'],
    breaks:
      'What an operator says about a late fill is not written beside it. Nobody can tell later why it was billed.',
    find: 'update late_reports set decided_at = :now, decision_reason = :reason',
    replace: 'update late_reports set decided_at = :now, decision_reason = nullif(:reason, :reason)',
  },
  {
    name: 'order-of-any-partner',
    by: ['contract'],
    breaks:
      "An order leads to the executions of everybody: an operator acts on another partner's purchase of the same name.",
    find: 'and tenant_id in (select t.tenant_id from tenants t where ${OF_TENANT})',
    replace: 'and tenant_id in (select t.tenant_id from tenants t where true or ${OF_TENANT})',
  },
  {
    name: 'adjustment-without-its-fill',
    by: ['contract', 'simulate'],
    breaks: 'An adjustment that was made of a late fill drops the fee, the price and the time of the report.',
    find: [
      'partner_fee_usd: adjustment.fill?.partnerFee ?? null,',
      'execution_price: adjustment.fill?.executionPrice ?? null,',
      'executed_at: adjustment.fill?.executedAt ?? null',
    ],
    replace: ['partner_fee_usd: null,', 'execution_price: null,', 'executed_at: null'],
  },
  {
    name: 'forgotten-acceptance-repeated',
    by: ['contract'],
    breaks:
      'A late fill whose note of its acceptance the disk has lost is accepted once more. What an operator has corrected since is undone, and the partner is billed by the report.',
    find: 'const isAdjusted = facts.adjustments.some((one) => one.reportId === reportId)',
    replace: 'const isAdjusted = false',
  },
  {
    name: 'other-amounts-settled',
    by: ['contract'],
    breaks:
      'Accepting a late fill settles every report of its order, whatever its amounts and its fee. What was bought besides is dropped, and nobody decided so.',
    find: 'and l.usd_amount = late_reports.usd_amount and l.btc_amount = late_reports.btc_amount',
    replace: '',
  },
  {
    name: 'replay-after-cancel',
    by: ['simulate'],
    breaks:
      'A fill that was refused because its execution was cancelled is answered as recorded when it is reported again. The partner believes it is on the books, and nobody is billed.',
    find: "if (known && known.acceptedAt !== null) return { kind: 'replayed', report }",
    replace: "if (known && known.acceptedAt !== undefined) return { kind: 'replayed', report }",
  },
  {
    name: 'part-fill-taken-for-a-whole-one',
    by: ['simulate'],
    breaks: 'A part fill uses up its whole reservation. What was not bought is never tried again.',
    find: 'window: settle(window, execution.amount, spentBy(report))',
    replace: 'window: settle(window, execution.amount, isFill(report) ? execution.amount : spentBy(report))',
  },
  {
    name: 'contradiction-taken-for-a-replay',
    by: ['simulate'],
    breaks:
      'Two reports that differ only in their dollars count as the same. A correction by the partner is answered as recorded, and the wrong amount is billed.',
    find: 'usdAmount: report.usdAmount.toString(),',
    replace: "usdAmount: '',",
  },
  {
    name: 'adjustment-from-the-first-report',
    by: ['simulate'],
    breaks:
      'An adjustment starts from what the trade said and leaves out the first adjustment since. The second one corrects what was corrected already.',
    find: 'const before = amountsOf(trade, adjustments)',
    replace: 'const before = amountsOf(trade, adjustments.slice(1))',
  },
  {
    name: 'server-refund-not-fireable',
    by: ['simulate'],
    on: 'postgres',
    breaks:
      'On a server the money of a failed purchase goes back to its window, and its schedule does not learn of it. The plan buys less than it was to.',
    find: 'fireable.length > 0 && tx.run(REFUND, arraysOf(FIREABLE, fireable))',
    replace: 'fireable.length > fireable.length && tx.run(REFUND, arraysOf(FIREABLE, fireable))',
  },
  {
    name: 'cancelled-money-not-released',
    by: ['simulate'],
    breaks:
      'What a cancelled execution gives back to a closed window is not released. The books of the window do not add up.',
    find: 'released = released + case when closed_at is null then 0 else o.usd - ${COVERED} end',
    replace: 'released = released + case when closed_at is null then 0 else 0 * o.usd end',
  },
  {
    name: 'booked-purchase-is-bought-again',
    by: ['contract'],
    breaks:
      'A purchase that an operator records stands outside the budget. The window that forgot it spends the same money again.',
    find: 'after: fill.usdAmount, reservation: amount })',
    replace: 'after: fill.usdAmount, reservation: ZERO_USD })',
  },
  {
    name: 'booked-tranche-is-delivered-again',
    by: ['contract'],
    breaks:
      'A purchase that is booked with its key leaves its tranche in the schedule. It is delivered once more.',
    find: 'tx.run(WINDOWS.put, scheduleParams(schedule as Schedule))',
    replace: 'tx.run(WINDOWS.put, scheduleParams({ ...(schedule as Schedule), trancheIndex: 1 }))',
  },
  {
    name: 'booked-tranche-leaves-its-plan-asleep',
    by: ['contract'],
    breaks:
      'A plan whose schedule was moved past a booked purchase stays asleep. It buys no more in its window.',
    find: 'tx.when(schedule !== null, () => wake(tx, planId)),',
    replace: '',
  },
  {
    name: 'booked-key-skips-others',
    by: ['contract'],
    breaks:
      'A purchase that is booked with a later key passes the tranches before it. What was bought under theirs is bought again under others.',
    find: '|| schedule.trancheIndex !== tranche)',
    replace: '|| tranche === null || schedule.trancheIndex > tranche)',
  },
  {
    name: 'booked-beside-its-instruction',
    by: ['contract'],
    breaks:
      'Nobody is told that a booked purchase has an instruction that is still open. It holds money of its window until its end.',
    find: 'one.trancheIndex === tranche)?.executionId',
    replace: 'one.trancheIndex !== tranche)?.executionId',
  },
  {
    name: 'booked-purchase-hides-damage',
    by: ['contract'],
    breaks:
      'A purchase is booked on a schedule that the disk has changed, and gives it a digest that agrees.',
    find: "schedule && isIntact('schedules', schedule) ? scheduleOf(schedule) : null",
    replace: 'schedule ? scheduleOf(schedule) : null',
  },
  {
    name: 'booked-purchase-twice',
    by: ['contract'],
    breaks: 'An order that is on record is booked again. One purchase would be billed as two.',
    find: "orderIs.some((is) => is !== 'late_fill')",
    replace: "orderIs.some((is) => is === 'further_purchase')",
  },
  {
    name: 'booked-beside-its-report',
    by: ['contract'],
    breaks:
      'A purchase is booked while a report of it waits. Accepted later, it would be refused, or recorded twice.',
    find: 'waiting: waiting.map((one) =>',
    replace: 'waiting: waiting.slice(0, 0).map((one) =>',
  },
  {
    name: 'booked-into-the-window-of-today',
    by: ['contract'],
    breaks:
      'A purchase is booked into the last window, not into that of its time. What was lost of a cell is bought again.',
    find: 'at, start, end })',
    replace: 'at: windowOf(last as WindowRow).start, start, end })',
  },
  {
    name: 'unknown-fill-of-anybody',
    by: ['contract'],
    breaks:
      'A report of an execution that another tenant has is kept. Accepted, it would be booked where nothing was lost.',
    find: 'select 1 from executions where execution_id = :execution_id\n',
    replace: 'select 1 from executions where execution_id = :execution_id and tenant_id = :tenant\n',
  },
  {
    name: 'unknown-fill-claimed-by-another',
    by: ['contract'],
    breaks:
      'A report of an unknown execution that another tenant has reported is dropped. With the wrong key first, it is gone.',
    find: 'canBeStored && claimed?.claimed === 0n &&',
    replace: 'canBeStored &&',
  },
  {
    name: 'unknown-fill-not-dated-by-its-report',
    by: ['contract'],
    breaks:
      'A report that is accepted late is dated by the acceptance. The partner sees a time at which it bought nothing.',
    find: 'return { ...made, trade: { ...made.trade, receivedAt } }',
    replace: 'return { ...made, trade: { ...made.trade } }',
  },
]
