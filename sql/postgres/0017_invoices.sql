-- Invoices and credit notes that were issued: rows are added, never changed. A position of a series is given once, and
-- none is left out. A credit note names the invoice that it corrects; a month of a partner has one invoice.
create table invoices (
  number text collate "C" not null primary key,
  series text collate "C" not null,
  position bigint not null check (position > 0),
  partner_slug text collate "C" not null references partners,
  month text collate "C" not null,
  corrects text collate "C",
  issued_at bigint not null,
  net_usd bigint not null check (net_usd > 0),
  tax_usd bigint not null check (tax_usd >= 0),
  details text collate "C" not null,
  digest bigint not null,
  unique (series, position)
);
create unique index invoices_of_month on invoices (partner_slug, month) where corrects is null;
create index invoices_correcting on invoices (corrects) where corrects is not null;
create index invoices_issued on invoices (issued_at, number);
