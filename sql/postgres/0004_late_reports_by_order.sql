-- From a partner's order to the reports that name it. Trades and further purchases have such an index already.
-- The start of the order is enough, so that the longest orders do not take pages of their own.
create index late_reports_by_order on late_reports (substr(partner_order_id, 1, 32), tenant_id);
