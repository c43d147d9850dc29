-- The users of the server and what they may do; each has a file with its password. Run once, by the superuser, on the
-- primary.
\set ON_ERROR_STOP on
-- No standby can follow before there is a user for it: none is waited for here.
set synchronous_commit = local;
\set tranche `cat "${SECRETS:-/etc/postgresql/tranche}/tranche-password"`
\set replicator `cat "${SECRETS:-/etc/postgresql/tranche}/replicator-password"`

-- The service: a schema of its own in a database of its own, and the figures that tranche check reads.
create role tranche login password :'tranche';
create database tranche;
revoke all on database tranche from public;
grant connect, create on database tranche to tranche;
grant pg_monitor to tranche;

-- The standby: it copies everything, and pg_rewind reads the files of the other server.
create role replicator login replication password :'replicator';
grant execute on function pg_ls_dir(text, boolean, boolean), pg_stat_file(text, boolean),
  pg_read_binary_file(text), pg_read_binary_file(text, bigint, bigint, boolean) to replicator;

-- The proxies, which ask one question and need no password for it.
create role haproxy login connection limit 20;
alter role haproxy set default_transaction_read_only = on;
alter role haproxy set statement_timeout = '1s';
revoke temporary on database postgres from public;
