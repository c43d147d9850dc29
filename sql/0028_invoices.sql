-- Invoices and credit notes that were issued: rows are added, never changed. A position of a series is given once, and
-- none is left out. A credit note names the invoice that it corrects; a month of a partner has one invoice.
create table invoices (
  number text not null primary key,
  series text not null,
  position integer not null check (position > 0),
  partner_slug text not null references partners,
  month text not null,
  corrects text,
  issued_at integer not null,
  net_usd integer not null check (net_usd > 0),
  tax_usd integer not null check (tax_usd >= 0),
  details text not null,
  digest integer not null,
  unique (series, position)
) strict, without rowid;
create unique index invoices_of_month on invoices (partner_slug, month) where corrects is null;
create index invoices_correcting on invoices (corrects) where corrects is not null;
create index invoices_issued on invoices (issued_at, number);
