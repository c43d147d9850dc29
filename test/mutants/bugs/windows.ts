// Planted bugs in plans and their windows: budgets, slots, due sets, prices, resets, and the time of a sandbox.

import type { Row } from '../rows.ts'

export const WINDOWS: readonly Row[] = [
  {
    name: 'idempotency-key-not-unique',
    by: ['contract'],
    breaks:
      'Nothing in the file keeps an idempotency key from being made twice. A partner would take the second tranche for a repetition, and it would never be bought.',
    find: 'unique (plan_id, window_start, tranche_index),',
    replace: '',
    in: 'sqlite',
  },
  {
    name: 'plan-id-not-unique',
    by: ['contract'],
    breaks: 'Nothing in the file keeps a plan from existing twice. Its budget would be spent twice.',
    find: ['updated_at integer not null,', 'unique (tenant_id, partner_plan_id)'],
    replace: 'updated_at integer not null',
  },
  {
    name: 'two-current-windows',
    by: ['contract'],
    breaks: 'A plan may have two current windows, each with a whole budget.',
    find: 'create unique index windows_current on windows (plan_id) where closed_at is null',
    replace: 'create index windows_current on windows (plan_id) where closed_at is null',
    in: 'sqlite',
  },
  {
    name: 'budget-unchecked',
    by: ['contract'],
    breaks: 'The file takes a window that has spent and reserved more than its budget.',
    find: [
      'check (reserved + spent + released <= budget),',
      'check (case when closed_at is null then released = 0 else reserved + spent + released = budget end)',
    ],
    replace: 'check (closed_at is null or closed_at >= 0)',
    in: 'sqlite',
  },
  {
    name: 'due-price-exclusive',
    by: ['contract'],
    breaks:
      'A plan is not due at exactly the price it waits for. The chance is gone when the price rises again.',
    find: "else await collect('limit', { from: livePrice, until: LAST, now }, due)",
    replace: "else await collect('limit', { from: livePrice + 1n, until: LAST, now }, due)",
  },
  {
    name: 'failsafe-a-millisecond-late',
    by: ['contract'],
    breaks:
      'The due set takes a plan into its failsafe a millisecond late: with a pass at that very instant, a whole pass late.',
    find: "await collect('failsafe', { from: FIRST, until: now + leadMs, now }, due)",
    replace: "await collect('failsafe', { from: FIRST, until: now + leadMs - 1, now }, due)",
  },
  {
    name: 'preview-stores',
    by: ['contract'],
    breaks: 'What a rehearsal of a pass would fire is stored. It is bought though an operator only asked.',
    find: 'throw undo',
    replace: '',
  },
  {
    name: 'cell-spent-twice',
    by: ['contract', 'simulate'],
    breaks:
      'A window that a clock ahead had opened and spent is opened again with its whole budget when its time comes.',
    find: [
      'const free = ledger.freeCell(schedule.planId, next, leastInstruction(minTranche, over.amount))',
      'return ledger.open(schedule.planId, free, minTranche)',
    ],
    replace: 'return ledger.open(schedule.planId, next, minTranche)',
  },
  {
    name: 'ids-of-a-page-not-in-order',
    by: ['contract'],
    breaks:
      'The execution ids of one page are not made one after the other. A cursor along them leaves executions out.',
    edits: [
      {
        find: 'let executionId = (sql.latestId.get() ?? null) as ExecutionId | null',
        replace: 'const latestId = (sql.latestId.get() ?? null) as ExecutionId | null',
      },
      {
        find: 'executionId = newExecutionId(executionId, real)',
        replace: 'const executionId = newExecutionId(latestId, real)',
        in: 'sqlite',
      },
    ],
  },
  {
    name: 'price-of-the-future',
    by: ['contract'],
    breaks:
      'A pass without a price of its own takes one that lies in the future. After a clock was set back, purchases are timed by it.',
    find: "'select * from prices where at <= :now order by at desc limit 1'",
    replace: "'select * from prices where at <= :now or 1 = 1 order by at desc limit 1'",
  },
  {
    name: 'prices-out-of-order',
    by: ['contract'],
    breaks: 'Prices are listed newest first, and pages behind a cursor leave some out.',
    find: "'select * from prices where at > :after order by at limit :limit'",
    replace: "'select * from prices where at > :after order by at desc limit :limit'",
  },
  {
    name: 'import-replaces-prices',
    by: ['contract'],
    breaks:
      'An import overwrites prices that were observed. What a purchase was timed by cannot be shown any more.',
    find: [
      'select at, price, cast(:source as text) from price_imports where true',
      '  order by at on conflict do nothing`',
    ],
    replace: [
      'select at, price, cast(:source as text) from price_imports where true',
      '  order by at on conflict (at) do update set price = excluded.price`',
    ],
  },
  {
    name: 'import-in-part',
    by: ['contract'],
    breaks:
      'An import that fails halfway leaves its first rows behind, and purchases are timed by half a history.',
    find: 'for await (const batch of batches) await staging.add(batch)',
    replace: [
      'for await (const batch of batches) {',
      '  await staging.add(batch)',
      '  await write((tx) => tx.run(MERGE, { source }))',
      '}',
    ],
  },
  {
    name: 'live-clock-moved',
    by: ['contract'],
    breaks: 'The clock of a live environment can be moved on. Windows end that nobody could buy in.',
    find: ['async moveSandbox(tenant, byMs, { wakeUpId, ...page }) {', '  refuseLive(tenant)'],
    replace: 'async moveSandbox(tenant, byMs, { wakeUpId, ...page }) {',
  },
  {
    name: 'sandbox-time-not-used',
    by: ['contract'],
    breaks:
      'A confirmation in a sandbox is dated by the real clock. A developer who tests the end of a month sees no bill.',
    find: 'write((real) => work(time.of(tenant.tenantId, real)), tenant.tenantId)',
    replace:
      "write((real) => work(tenant.environment === 'test' ? real : time.of(tenant.tenantId, real)), tenant.tenantId)",
  },
  {
    name: 'keys-of-the-first-reset-alone',
    by: ['contract'],
    breaks:
      'A second reset of a sandbox leaves the keys of the first one remembered: a plan that is sent once more repeats one, and a partner takes the new instruction for an order that it has already placed.',
    find: [
      'on conflict (tenant_id, partner_plan_id) do update set window_start = excluded.window_start',
      '  where excluded.window_start > used_before_reset.window_start',
    ],
    replace: 'on conflict (tenant_id, partner_plan_id) do nothing',
  },
  {
    name: 'old-keys-of-a-reset-forgotten',
    by: ['contract'],
    breaks:
      'The keys of windows that were older than any of today when a sandbox was wiped come again after a clock was set back.',
    find: [
      'where tenant_id = :tenant and partner_plan_id = :partner_plan_id',
      'union all select used_until from sandboxes where tenant_id = :tenant) x',
    ],
    replace: 'where tenant_id = :tenant and partner_plan_id = :partner_plan_id) x',
  },
  {
    name: 'reset-on-equal-amount',
    by: ['simulate'],
    breaks:
      'A plan that is sent again with the same amount starts a new window. Each repetition of a request buys a whole budget more.',
    find: 'return reactivated || after.amount !== before.amount || after.frequency !== before.frequency',
    replace: 'return reactivated || after.amount !== undefined || after.frequency !== before.frequency',
  },
  {
    name: 'idempotency-key-made-twice',
    by: ['simulate'],
    breaks:
      'A reset under a clock set back makes an idempotency key a second time, and nothing in the file refuses it. The partner takes the tranche for a repetition, and it is never bought.',
    edits: [
      {
        find: 'unique (plan_id, window_start, tranche_index),',
        replace: '',
        in: 'sqlite',
      },
      {
        find: [
          'let start = near.reduce((latest, used) => later(latest, plus(used, 1)), wanted)',
          'while (usedStarts.includes(start)) start = plus(start, 1)',
        ],
        replace: 'const start = near.reduce((latest, used) => later(latest, used), wanted)',
      },
    ],
  },
  {
    name: 'failsafe-a-minute-late',
    by: ['simulate'],
    breaks:
      'The failsafe of a window begins a minute late. With a pass at that time, a budget that should be bought is not.',
    find: '): Instant => later(windowStart, plus(windowEnd, -leadMs))',
    replace: '): Instant => later(windowStart, plus(windowEnd, MINUTE_MS - leadMs))',
  },
  {
    name: 'extra-tranches-without-bound',
    by: ['simulate'],
    breaks:
      'Money that comes back near the end of a window is tried again at every pass. A venue that fails everything is sent one instruction after the other.',
    find: 'if (planned.extrasLeft === 0 || pass.now < planned.nextExtraAt) return resting',
    replace: '',
  },
  {
    name: 'unspent-money-carried-over',
    by: ['simulate'],
    breaks:
      'What a window did not spend is added to the budget of the next. A user pays more than the plan says.',
    find: 'amount: plan.amount_usd as Usd',
    replace: 'amount: (plan.amount_usd + schedule.fireable) as Usd',
  },
  {
    name: 'held-partner-fires',
    by: ['simulate'],
    breaks:
      'A hold does not keep plans out of the due set. They go on buying while an operator believes them stopped.',
    find: 'and r.held = 0 then 1 else 0 end',
    replace: 'then 1 else 0 end',
  },
  {
    name: 'server-cell-spent-twice',
    by: ['simulate'],
    on: 'postgres',
    breaks:
      'On a server a cell that already has money in it counts as empty when a window is rolled into it. A plan spends the budget of one day twice.',
    find: 'const free = openCell(cell, { claimed: use.claimed as Usd, usedStart: instantOrNull(use.used) }, floor)',
    replace: 'const free = openCell(cell, { claimed: 0n as Usd, usedStart: instantOrNull(use.used) }, floor)',
  },
  {
    name: 'keys-before-a-reset-come-again',
    by: ['simulate'],
    breaks:
      'A sandbox that is wiped forgets which keys it has given out. The same plan gets them once more, and a partner takes the new instruction for an order that it has already placed.',
    find: [
      'where tenant_id = :tenant and partner_plan_id = :partner_plan_id',
      'union all select used_until from sandboxes where tenant_id = :tenant) x',
    ],
    replace: 'where tenant_id = :tenant and partner_plan_id = :partner_plan_id and false) x',
  },
]
