-- From a partner's order to the reports that name it. Trades and further purchases have such an index already.
create index late_reports_by_order on late_reports (partner_order_id, tenant_id);
