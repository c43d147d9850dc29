-- Reports of purchases that a rule refused are kept, whichever rule it was, and an operator can record all of them.

-- What was bought beyond a reservation or a budget and accepted by an operator: spent + excess is what the trades and
-- adjustments of a window add up to. It stands outside the budget.
alter table windows add column excess integer not null default 0 check (excess >= 0);

-- Reports of fills that were only counted, because enough of them are kept.
alter table executions add column unkept_reports integer not null default 0 check (unkept_reports >= 0);
create index executions_unkept on executions (execution_id) where unkept_reports > 0;

-- Fills alone: a report of failure or cancellation tells of no purchase.
delete from late_reports where status not in ('filled', 'partial');
alter table late_reports add column reason text not null default 'execution_cancelled'
  check (reason in ('execution_cancelled', 'execution_recorded', 'order_id_taken', 'amount_over_reservation'));
-- When an operator was done with it; accepted_at is set too if it was recorded.
alter table late_reports add column decided_at integer;
update late_reports set decided_at = coalesce(accepted_at, (
  select d.recorded_at from trades d
  where d.execution_id = late_reports.execution_id and d.partner_order_id = late_reports.partner_order_id));
create index late_reports_undecided on late_reports (tenant_id) where decided_at is null;

-- The late fill an adjustment was made of, and the order of a further purchase; null when an operator gave the amounts.
alter table adjustments add column report_id integer references late_reports;
alter table adjustments add column partner_order_id text check (partner_order_id is null or report_id is not null);
create unique index adjustments_by_order on adjustments (tenant_id, partner_order_id)
  where partner_order_id is not null;
