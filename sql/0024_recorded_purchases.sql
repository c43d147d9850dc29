-- An operator may record a purchase that the ledger does not know. It has an execution as every purchase has, which
-- nothing fired. Only what is allowed changes, and no row: the text of the schema is all there is to write.
pragma writable_schema = on;
update sqlite_schema set sql = replace(sql, '''failsafe'', ''clock'')', '''failsafe'', ''clock'', ''recorded'')')
  where type = 'table' and name = 'executions';
pragma writable_schema = reset;
