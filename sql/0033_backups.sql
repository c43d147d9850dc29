-- Where the backups of the job are, and the newest good one, with the host whose disk that is where it is not the
-- database's own.
alter table last_results add column folder text;
alter table last_results add column file text;
alter table last_results add column file_host text;
