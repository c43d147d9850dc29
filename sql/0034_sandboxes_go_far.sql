-- A sandbox's clock never goes back, and goes as far as dates can be written (SANDBOX_UNTIL), not ten years. Only what is
-- allowed changes, and no row: the text of the schema is all there is to write.
pragma writable_schema = on;
update sqlite_schema set sql = replace(replace(sql, '-- At most ten years.', '-- Until the year 9000.'),
    'between 0 and 315360000000', 'between 0 and 221845392000000')
  where type = 'table' and name = 'sandboxes';
pragma writable_schema = reset;
