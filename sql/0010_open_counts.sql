-- How many executions a tenant has open, by the end of their lease: what a poll answers in X-Due-Remaining without
-- counting (docs/decisions/0048-what-is-due-is-counted-as-it-changes.md). A lease that ends at 0 is none: the execution
-- was never delivered. A poll takes the rows away that have come to nothing.
create table open_counts (
  tenant_id integer not null references tenants,
  lease_expires_at integer not null,
  n integer not null check (n >= 0),
  primary key (tenant_id, lease_expires_at)
) strict, without rowid;
insert into open_counts
  select tenant_id, coalesce(lease_expires_at, 0), count(*) from executions
  where status in ('pending', 'sent') group by 1, 2;

-- Counted here, so that no writer can forget it, of whatever version: what is not counted is never handed out.
create trigger executions_counted_in after insert on executions when new.status in ('pending', 'sent')
  begin
    insert into open_counts values (new.tenant_id, coalesce(new.lease_expires_at, 0), 1)
      on conflict do update set n = n + 1;
  end;
create trigger executions_counted_on after update of tenant_id, status, lease_expires_at on executions
  when new.status in ('pending', 'sent')
  begin
    insert into open_counts values (new.tenant_id, coalesce(new.lease_expires_at, 0), 1)
      on conflict do update set n = n + 1;
  end;
create trigger executions_counted_off after update of tenant_id, status, lease_expires_at on executions
  when old.status in ('pending', 'sent')
  begin
    update open_counts set n = n - 1
      where tenant_id = old.tenant_id and lease_expires_at = coalesce(old.lease_expires_at, 0) and n > 0;
  end;
create trigger executions_uncounted after delete on executions when old.status in ('pending', 'sent')
  begin
    update open_counts set n = n - 1
      where tenant_id = old.tenant_id and lease_expires_at = coalesce(old.lease_expires_at, 0) and n > 0;
  end;
