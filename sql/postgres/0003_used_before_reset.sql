-- Of the executions that resets of a sandbox have removed: the latest start of a window under each plan's name. A window
-- that would open at or before it opens a millisecond after it, so that no idempotency key comes twice.
create table used_before_reset (
  tenant_id bigint not null references sandboxes,
  partner_plan_id text collate "C" not null,
  window_start bigint not null,
  primary key (tenant_id, partner_plan_id)
);

-- The same for every plan of the environment, whatever its name: starts that are too old to be kept one by one.
alter table sandboxes add column used_until bigint not null default 0;

-- Resets before this kept nothing of the kind. When they were is in the audit log, and no window with executions had
-- started later than the sandbox's time was then.
update sandboxes set used_until = coalesce((
  select max(a.at) + sandboxes.offset_ms from audit a join tenants t on t.partner_slug = a.subject
  where a.action = 'sandbox.reset' and t.tenant_id = sandboxes.tenant_id), 0);
