-- Sandbox time. A test tenant whose clock has been moved on, and by how much: its time is the real one plus offset_ms.
-- A live tenant can have no row here: the check refuses its environment, the foreign key refuses a false one.
create unique index tenants_by_environment on tenants (tenant_id, environment);
create table sandboxes (
  tenant_id integer primary key,
  environment text not null check (environment = 'test'),
  -- At most ten years.
  offset_ms integer not null default 0 check (offset_ms between 0 and 315360000000),
  -- The end, in its own time, of what has been reported of this tenant alone: as reported_until for all others.
  reported_until integer not null default 0,
  -- 1 only inside the transaction that wipes the tenant.
  resetting integer not null default 0 check (resetting in (0, 1)),
  foreign key (tenant_id, environment) references tenants (tenant_id, environment)
) strict;
create trigger sandboxes_go_on before update on sandboxes
  when new.offset_ms < old.offset_ms or new.tenant_id <> old.tenant_id
  begin select raise(abort, 'sandbox time only goes on'); end;
create trigger sandboxes_stay before delete on sandboxes
  begin select raise(abort, 'sandbox time only goes on'); end;

-- Consents stay evidence for ever, except those of a test tenant that is being wiped.
drop trigger consents_stay;
create trigger consents_stay before delete on consents
  when not exists (
    select 1 from users join sandboxes on sandboxes.tenant_id = users.tenant_id
    where users.user_id = old.user_id and sandboxes.resetting = 1)
  begin select raise(abort, 'consents are append-only'); end;
-- So do adjustments.
drop trigger adjustments_stay;
create trigger adjustments_stay before delete on adjustments
  when not exists (
    select 1 from sandboxes where sandboxes.tenant_id = old.tenant_id and sandboxes.resetting = 1)
  begin select raise(abort, 'adjustments are append-only'); end;
