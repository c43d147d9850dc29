-- A poll goes along two ranges of the index of what is open: leases that are over, and what was never delivered.
drop index executions_open;
create index executions_open on executions (tenant_id, lease_expires_at, created_at, execution_id)
  where status in ('pending', 'sent');
