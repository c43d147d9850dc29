// Trades, adjustments and late reports as both stores read and write them.

export const TRADE = 'select * from trades where execution_id = :execution_id'

/** In the order they were made. */
export const ADJUSTMENTS =
  'select * from adjustments where execution_id = :execution_id order by adjustment_id'

/** Its tenant, plan and user are those of the trade. */
export const INSERT_ADJUSTMENT = `
  insert into adjustments (adjustment_id, execution_id, tenant_id, plan_id, user_id, usd_amount, btc_amount,
    reason, recorded_at, report_id, partner_order_id, partner_fee_usd, execution_price, executed_at, digest)
  select :adjustment_id, execution_id, tenant_id, plan_id, user_id, :usd_amount, :btc_amount,
    :reason, :recorded_at, :report_id, :partner_order_id, :partner_fee_usd, :execution_price, :executed_at, :digest
  from trades where execution_id = :execution_id`

export const LATE_REPORTS = 'select * from late_reports where execution_id = :execution_id order by report_id'

export const LATE_REPORT = 'select * from late_reports where report_id = :report_id'

export const LIST_LATE_REPORTS = `
  select l.*, e.unkept_reports from late_reports l join executions e on e.execution_id = l.execution_id
  where l.report_id > :after order by l.report_id limit :limit`

/** One that was dismissed and is accepted after all has its last reason. */
export const ACCEPT_REPORT = `
  update late_reports set accepted_at = :now,
    decision_reason = case when decided_at is null then decision_reason else :reason end
  where report_id = :report_id`

const DECIDE = `update late_reports set decided_at = :now, decision_reason = :reason
  where decided_at is null and`

/** Those that say the same of its order as one that was accepted: what says something else is for an operator. */
export const DECIDE_EQUAL = `
  update late_reports set decided_at = :now,
    decision_reason = 'says the same as report ' || cast(:report_id as bigint) || ', which was accepted'
  where decided_at is null and exists (
    select 1 from late_reports l
    where l.report_id = cast(:report_id as bigint) and l.report_id <> late_reports.report_id
      and l.execution_id = late_reports.execution_id and l.partner_order_id = late_reports.partner_order_id
      and l.usd_amount = late_reports.usd_amount and l.btc_amount = late_reports.btc_amount
      and l.partner_fee_usd is not distinct from late_reports.partner_fee_usd)`

export const DECIDE_REPORT = `${DECIDE} report_id = :report_id`

export const DECIDE_REPORTS = `${DECIDE} execution_id = :execution_id`

export const COUNT_NO_REPORTS =
  'update executions set unkept_reports = 0 where execution_id = :execution_id and unkept_reports > 0'
