// Planted bugs in single events: executions, orders, reports, transactions, and the knowledge of a copy or a restore.

import type { Bugs } from '../rows.ts'

export const ONCE: Bugs = {
  contract: {
    'idempotency-key-not-unique': {
      breaks:
        'Nothing in the file keeps an idempotency key from being made twice. A partner would take the second tranche for a repetition, and it would never be bought.',
      find: 'unique (plan_id, window_start, tranche_index),',
      replace: '',
    },
    'plan-id-not-unique': {
      breaks: 'Nothing in the file keeps a plan from existing twice. Its budget would be spent twice.',
      find: 'updated_at integer not null, unique (tenant_id, partner_plan_id)',
      replace: 'updated_at integer not null',
    },
    'two-current-windows': {
      breaks: 'A plan may have two current windows, each with a whole budget.',
      find: 'create unique index windows_current on windows (plan_id) where closed_at is null',
      replace: 'create index windows_current on windows (plan_id) where closed_at is null',
    },
    'order-id-not-unique': {
      breaks:
        'Nothing in the file keeps one order from being recorded twice. One purchase would be billed as two.',
      find: 'unique (tenant_id, partner_order_id),',
      replace: '',
    },
    'accepted-while-pending-handed-out': {
      breaks:
        'Accepting a report of a pending execution leaves it pending. It is handed out, and bought again.',
      find: "if (made.kind === 'recorded') yield* recordTrades(tx, tenant, [made])",
      replace:
        "if (made.kind === 'recorded') yield* recordTrades(tx, tenant, [{ ...made, execution: { ...made.execution, status: execution.status } }])",
    },
    'cancel-forgets-sent': {
      breaks:
        'A cancel ends only what was never delivered. An execution that is out stays open on a plan that is over, and is delivered again.',
      find: 'e.window_id = w.window_id and ${IS_OPEN}`',
      replace: "e.window_id = w.window_id and ${IS_OPEN} and e.status = 'pending'`",
    },
    'accepted-order-stays-open': {
      breaks:
        'Accepting a late fill leaves other reports that say the same of its order to be decided. They are accepted too, and one purchase is billed twice.',
      find: 'where decided_at is null and exists (',
      replace: 'where decided_at is null and accepted_at is not null and exists (',
    },
    'booked-purchase-twice': {
      breaks: 'An order that is on record is booked again. One purchase would be billed as two.',
      find: "orderIs.some((is) => is !== 'late_fill')",
      replace: "orderIs.some((is) => is === 'further_purchase')",
    },
    'booked-tranche-is-delivered-again': {
      breaks:
        'A purchase that is booked with its key leaves its tranche in the schedule. It is delivered once more.',
      find: 'tx.run(PUT_SCHEDULE, scheduleParams(schedule as Schedule))',
      replace: 'tx.run(PUT_SCHEDULE, scheduleParams({ ...(schedule as Schedule), trancheIndex: 1 }))',
    },
    'pass-lock-shared': {
      breaks: 'The lock of a pass keeps nobody out but this very process. Two schedulers run at once.',
      find: "{ fileMustExist: true }) try { db.exec('begin immediate')",
      replace: "{ fileMustExist: true }); try { db.exec('begin')",
    },
    'begin-deferred': {
      breaks:
        'A write takes the lock only when it stores something. What it has read may be old by then, and of two writers at once one fails.',
      find: "): Write { const sql = { begin: db.prepare('begin immediate')",
      replace: "): Write { const sql = { begin: db.prepare('begin deferred')",
    },
    'savepoint-not-undone': {
      breaks: 'A refused write is not undone when others share its commit. Half of it stays on the books.',
      find: 'if (!db.inTransaction) throw error sql.undo.run()',
      replace: 'if (!db.inTransaction) throw error',
    },
    'retry-refused': {
      breaks:
        'A confirmation whose answer was lost is refused when the partner repeats it, as if it bought twice.',
      find: "if (trade && sameReport(trade.report, report)) return { kind: 'replayed', report }",
      replace: '',
    },
  },
  simulate: {
    'replay-after-cancel': {
      breaks:
        'A fill that was refused because its execution was cancelled is answered as recorded when it is reported again. The partner believes it is on the books, and nobody is billed.',
      find: "if (known && known.acceptedAt !== null) return { kind: 'replayed', report }",
      replace: "if (known && known.acceptedAt !== undefined) return { kind: 'replayed', report }",
    },
    'contradiction-taken-for-a-replay': {
      breaks:
        'Two reports that differ only in their dollars count as the same. A correction by the partner is answered as recorded, and the wrong amount is billed.',
      find: 'usdAmount: report.usdAmount.toString(),',
      replace: "usdAmount: '',",
    },
    'redelivered-without-a-lease': {
      breaks:
        'An execution that is delivered again keeps its old lease, which is over. Every poll after that gets it, two at once as well.',
      find: 'leaseExpiresAt: plus(now, LEASE_MS)',
      replace: 'leaseExpiresAt: execution.leaseExpiresAt ?? plus(now, LEASE_MS)',
    },
    'keys-before-a-reset-come-again': {
      breaks:
        'A sandbox that is wiped forgets which keys it has given out. The same plan gets them once more, and a partner takes the new instruction for an order that it has already placed.',
      find: 'where tenant_id = :tenant and partner_plan_id = :partner_plan_id union all select used_until from sandboxes where tenant_id = :tenant) x',
      replace: 'where tenant_id = :tenant and partner_plan_id = :partner_plan_id and false) x',
    },
  },
  copy: {
    'issued-forgotten-by-a-restore': {
      breaks:
        'A restore forgets what was issued since the backup. Numbers that customers have are given again.',
      find: 'for (const one of sinceCopy?.issued ?? [])',
      replace: 'for (const one of sinceCopy?.issued.slice(1) ?? [])',
    },
    'cancels-not-carried': {
      breaks: 'A plan that was cancelled since the backup buys again after the restore.',
      find: "planStop(`o.status = 'cancelled' and n.status <> 'cancelled'`)",
      replace: "planStop(`o.status = 'cancelled' and n.status = 'paused'`)",
    },
    'last-block-not-carried': {
      breaks:
        'A copy forgets the rows at the end of every table. The newest trades are gone, and the books are short by them.',
      find: 'if (rows > 0) yield { text, rows }',
      replace: '',
    },
  },
}
