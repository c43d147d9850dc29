-- A poll goes along the index of what is open, and no longer needs counts of it. The table stays, and stays empty: a
-- schema only grows.
drop trigger executions_counted_in;
drop trigger executions_counted_on;
drop trigger executions_counted_off;
drop trigger executions_uncounted;
delete from open_counts;
