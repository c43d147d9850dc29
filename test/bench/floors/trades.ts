// The trades of a month as one statement, in SQL that both stores speak.

/** The columns and rows of the export, in its order, as they lie in the database. */
export const TRADES_BY_HAND = `select d.recorded_at, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id,
    d.execution_id, d.partner_order_id, d.status, d.usd_amount, d.btc_amount, d.execution_price, d.partner_fee_usd,
    d.executed_at, d.failure_reason
  from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
    join plans p on p.plan_id = d.plan_id
  order by d.recorded_at, d.execution_id`
