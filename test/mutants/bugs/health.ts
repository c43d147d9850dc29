// Planted bugs in what tells that something is wrong: the check, digests of rows, and the figures of a service.

import type { Row } from '../rows.ts'

export const HEALTH: readonly Row[] = [
  {
    name: 'probe-leaves-a-pass',
    by: ['contract'],
    breaks:
      'The probe of monitoring leaves a row behind. Every probe looks like a pass, and a scheduler that stands still looks alive.',
    find: ['sql.probe.run()', 'sql.undo.run()'],
    replace: 'sql.probe.run()',
  },
  {
    name: 'acceptance-counts-as-a-confirmation',
    by: ['contract'],
    breaks:
      'What an operator accepts counts as a confirmation of the partner. Status says that a partner which was never taken at its word is well.',
    find: 'l.execution_id = d.execution_id and l.accepted_at is not null and l.partner_order_id = d.partner_order_id and l.received_at',
    replace:
      'l.execution_id = d.execution_id and l.accepted_at < 0 and l.partner_order_id = d.partner_order_id and l.received_at',
  },
  {
    name: 'check-without-spent',
    by: ['contract'],
    breaks:
      'The check does not add up the trades of a window. Money that was lost on the way is not noticed.',
    find: 'w.spent + w.excess <> x.sum and p.plan_id',
    replace: 'w.spent + w.excess < x.sum - x.sum and p.plan_id',
  },
  {
    name: 'check-without-open-executions',
    by: ['contract'],
    breaks: 'The check passes over executions that are open on a cancelled plan.',
    find: "and (p.status = 'cancelled' or (u.status = 'disabled' and s.user_id is null))",
    replace: "and (u.status = 'disabled' and s.user_id is null)",
  },
  {
    name: 'latest-executions-by-age',
    by: ['contract'],
    breaks: "What happened lately begins with the oldest executions. An operator looks at last year's.",
    find: 'from (select * from executions order by execution_id desc limit :limit) e',
    replace: 'from (select * from executions order by execution_id limit :limit) e',
  },
  {
    name: 'outage-counted-as-one-gap',
    by: ['contract'],
    breaks:
      'A pass knows only the last gap between passes. After one that came in time the failsafe begins too late for a slow cron.',
    find: 'tx.all(TIMES, { tick_id: null, limit: PASS_GAPS_SEEN })',
    replace: 'tx.all(TIMES, { tick_id: null, limit: 1 })',
  },
  {
    name: 'feed-failure-not-noted',
    by: ['contract'],
    breaks: 'A pass does not note why its feed gave no price. A feed that is down for days is never found.',
    find: 'feed_failure: asked?.failure?.slice(0, FAILURE_MAX) ?? null',
    replace: 'feed_failure: asked?.failure?.slice(FAILURE_MAX, 0) || null',
  },
  {
    name: 'orders-of-all-time',
    by: ['contract'],
    breaks:
      'The orders of a day are those of all time. A partner whose venue broke this morning looks well for weeks.',
    find: '(select sum(o.${outcome}) from outcomes o where o.tenant_id = t.tenant_id and o.hour > :hour)',
    replace:
      '(select sum(o.${outcome}) from outcomes o where o.tenant_id = t.tenant_id and o.hour > :hour - 48)',
  },
  {
    name: 'check-without-the-fee-of-a-report',
    by: ['contract'],
    breaks:
      'The check does not compare the fee of an accepted report with its adjustment. A fee that nobody reported stays in the month.',
    find: [
      'or (a.partner_fee_usd is null) <> (l.partner_fee_usd is null)',
      'or (a.partner_order_id is not null and l.partner_fee_usd <> a.partner_fee_usd))))',
    ],
    replace: ')))',
  },
  {
    name: 'damaged-schedule-fires',
    by: ['contract'],
    breaks: 'A pass goes by a schedule whose row the disk has changed. A tranche fires long before its time.',
    find: "const stored = scheduleOf(intact('schedules', row))",
    replace: 'const stored = scheduleOf(row)',
  },
  {
    name: 'damaged-execution-handed-out',
    by: ['contract'],
    breaks: 'A poll hands out an execution whose amount the disk has changed. The partner buys that much.',
    find: "const sound = due.filter((row) => isIntact('executions', row))",
    replace: 'const sound = due',
    in: 'sqlite',
  },
  {
    name: 'damaged-execution-confirmed',
    by: ['contract'],
    breaks:
      'A purchase is recorded against an execution that the disk has changed: the limit on what it may cost is not the one it had.',
    find: "execution: executionOf(intact('executions', execution)),",
    replace: 'execution: executionOf(execution),',
  },
  {
    name: 'damaged-late-fill-accepted',
    by: ['contract'],
    breaks:
      'A late fill whose amount the disk has changed is accepted. The partner is billed for what nobody bought.',
    find: ['yield* refuseDamaged(tx, late)', 'const asked = { executionId,'],
    replace: 'const asked = { executionId,',
  },
  {
    name: 'retry-of-a-damaged-late-fill',
    by: ['contract'],
    breaks: 'The retry of a report whose stored copy is damaged fails with 500 for ever.',
    find: "keep: db.prepare(`${insertInto('late_reports')} on conflict (execution_id, fingerprint) do nothing`)",
    replace: "keep: db.prepare(insertInto('late_reports'))",
  },
  {
    name: 'damaged-key-lets-in',
    by: ['contract'],
    breaks:
      'A key whose end the disk has changed lets its holder in. Whoever found an old key goes on buying with it.',
    find: "key: keyOf(intact('api_keys', row))",
    replace: 'key: keyOf(row)',
    in: 'sqlite',
  },
  {
    name: 'damaged-tier-bills',
    by: ['contract'],
    breaks:
      'A month is billed by an override that the disk has changed. The partner pays another price than was agreed.',
    find: "row ? intact('tier_overrides', row).tier_name : null",
    replace: 'row ? row.tier_name : null',
  },
  {
    name: 'damage-made-good',
    by: ['contract'],
    breaks:
      "The change of a partner gives its damaged row a digest that agrees. Nobody ever learns that its hold was the disk's.",
    find: "if (row) intact('partners', row)",
    replace: '',
  },
  {
    name: 'changed-rows-unnoticed',
    by: ['contract', 'simulate'],
    breaks:
      'The check does not compare rows with their digests. A plan that the disk has changed goes on unnoticed.',
    find: 'changed: (rows) => changedRows(name, rows)',
    replace: 'changed: (rows) => changedRows(name, rows.slice(rows.length))',
  },
  {
    name: 'damaged-plan-fires',
    by: ['contract'],
    breaks: 'A pass goes by the amount of a plan whose row the disk has changed. The next window buys it.',
    find: "const termsOf = (planId: number): TermsRow => intact('plans', sql.terms.get(planId) as TermsRow)",
    replace: 'const termsOf = (planId: number): TermsRow => sql.terms.get(planId) as TermsRow',
  },
  {
    name: 'check-without-stops',
    by: ['contract'],
    breaks: 'The check says nothing of a stop under way of a user who is linked.',
    find: "where s.tenant_id <> u.tenant_id or (s.ended_at is null and u.status <> 'disabled')",
    replace: 'where s.tenant_id <> u.tenant_id',
  },
  {
    name: 'well-at-forgotten',
    by: ['contract'],
    breaks:
      'A job that fails takes with it when it last went well. Nobody can tell a backup that failed tonight from one that never worked.',
    find: 'well_at = coalesce(excluded.well_at, last_results.well_at)',
    replace: 'well_at = excluded.well_at',
  },
  {
    name: 'result-of-any-host',
    by: ['contract'],
    breaks:
      'A service without a certificate takes away what another one has noted of its own, whose end nobody is warned of.',
    find: 'delete from last_results where job = :job and host = :host',
    replace: 'delete from last_results where job = :job',
  },
]
