-- From when on a certificate is valid: it is told of when a share of its life is left.
alter table last_results add column begins_at bigint;
