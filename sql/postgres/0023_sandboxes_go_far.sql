-- A sandbox's clock never goes back, and goes as far as dates can be written (SANDBOX_UNTIL), not ten years.
alter table sandboxes drop constraint sandboxes_offset_ms_check;
alter table sandboxes add constraint sandboxes_offset_ms_check check (offset_ms between 0 and 221845392000000);
