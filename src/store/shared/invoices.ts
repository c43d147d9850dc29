// Invoices and credit notes: each gets the next number of its series, once, and is never changed.

import { type Issued, nextPosition, numberAt, type Series } from '../../core/invoice.ts'
import type { Usd } from '../../core/money.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type Instant, later } from '../../core/time.ts'
import { instant, query } from '../statement.ts'
import type { AuditEntry, InvoiceStore } from '../store.ts'
import { insertInto, type NewRow, type RowOf } from '../tables.ts'
import type { Base, Steps, Tx } from '../transaction.ts'
import { addAudit } from './audit.ts'
import { IS_CLOSED } from './months.ts'

export const issuedOf = ({ number, month, corrects, details, ...row }: RowOf<'invoices'>): Issued => ({
  number,
  partnerSlug: row.partner_slug,
  month,
  corrects,
  issuedAt: instant(row.issued_at),
  net: row.net_usd as Usd,
  tax: row.tax_usd as Usd,
  details,
})

/** A number follows from all others of its series, so only one write at a time may add any. */
const ALONE = query('lock table invoices in share row exclusive mode')
const PARTNER = query('select 1 as is_there from partners where partner_slug = :slug')
const BY_NUMBER = query('select * from invoices where number = :number', issuedOf)
const OF_MONTH = query(
  'select * from invoices where partner_slug = :slug and month = :month and corrects is null',
  issuedOf,
)
const CORRECTING = query(
  'select * from invoices where corrects = :number order by issued_at, number',
  issuedOf,
)
const LAST = query<{ last: bigint | null; issued_at: bigint | null }>(
  'select max(position) as last, max(issued_at) as issued_at from invoices where series = :series',
)
const AT_POSITION = query(
  'select 1 as is_there from invoices where series = :series and position = :position',
)
const ADD = query(insertInto('invoices'))
const ISSUED = query(
  `select * from invoices where issued_at >= :from and issued_at < :before
     and (cast(:slug as text) is null or partner_slug = :slug)
     and (issued_at, number) > (:at, :number)
   order by issued_at, number limit :limit`,
  issuedOf,
)

const rowOf = (issued: Issued, place: { series: string; position: number }) =>
  ({
    number: issued.number,
    ...place,
    partner_slug: issued.partnerSlug,
    month: issued.month,
    corrects: issued.corrects,
    issued_at: issued.issuedAt,
    net_usd: issued.net,
    tax_usd: issued.tax,
    details: issued.details,
  }) satisfies NewRow<'invoices'>

/** A restored database may have lost numbers that were assigned. */
const SCOPE = { acts: true }

export const createInvoiceStore = ({ look, write }: Base): InvoiceStore => ({
  issueInvoice: ({ slug, month, ...drawn }, series, entryOf) =>
    write(function* (tx) {
      const [{ real }, , partner, isClosed, known] = yield* tx.together(
        tx.times,
        tx.lock(ALONE),
        tx.get(PARTNER, { slug }),
        tx.get(IS_CLOSED, { month }),
        tx.get(OF_MONTH, { slug, month }),
      )
      if (!partner) throw notFound('partner', slug)
      if (known) return { issued: known, isNew: false }
      if (!isClosed)
        throw new Problem(
          'invoice_conflict',
          `${month} can still change: only a month that is final can be invoiced.`,
        )
      const of = { partnerSlug: slug, month, corrects: null, issuedAt: real, ...drawn }
      return { issued: yield* add(tx, of, { series, real, entryOf }), isNew: true }
    }, SCOPE),

  creditInvoice: (number, series, decide, entryOf) =>
    write(function* (tx) {
      const [{ real }, , invoice, earlier] = yield* tx.together(
        tx.times,
        tx.lock(ALONE),
        tx.get(BY_NUMBER, { number }),
        tx.all(CORRECTING, { number }),
      )
      if (!invoice) throw notFound('invoice', number)
      const { partnerSlug, month } = invoice
      const drawn = decide(invoice, earlier)
      return yield* add(
        tx,
        { partnerSlug, month, corrects: number, issuedAt: later(real, invoice.issuedAt), ...drawn },
        { series, real, entryOf },
      )
    }, SCOPE),

  keepIssued: ({ series, position, ...issued }) =>
    write(function* (tx) {
      const { number, partnerSlug: slug, month, corrects } = issued
      const [, partner, known, ofMonth, inPlace] = yield* tx.together(
        tx.lock(ALONE),
        tx.get(PARTNER, { slug }),
        tx.get(BY_NUMBER, { number }),
        tx.get(OF_MONTH, { slug, month }),
        tx.get(AT_POSITION, { series, position }),
      )
      if (!partner || known || inPlace || (corrects === null && ofMonth)) return false
      yield* tx.run(ADD, rowOf(issued, { series, position }))
      return true
    }),

  findInvoice: async (number) => (await look((tx) => tx.get(BY_NUMBER, { number }))) ?? null,

  findInvoiceOf: async (slug, month) => (await look((tx) => tx.get(OF_MONTH, { slug, month }))) ?? null,

  listInvoices({ slug, from, before }, { after, limit }) {
    const since = { at: after?.issuedAt ?? BEFORE_ALL, number: after?.number ?? '' }
    return look((tx) => tx.all(ISSUED, { slug, from, before, limit, ...since }))
  },
})

/** An instant before every issue. */
const BEFORE_ALL = Number.MIN_SAFE_INTEGER

type Adding = { series: Series; real: Instant; entryOf: (issued: Issued) => AuditEntry }

/**
 * Behind the lock, no other number of the series is assigned meanwhile, and a number that is rolled back was never
 * assigned. If the clock has gone back, it is dated like the last one, so that numbers and dates have one order.
 */
function* add(tx: Tx, of: Omit<Issued, 'number'>, { series, real, entryOf }: Adding): Steps<Issued> {
  const found = yield* tx.get(LAST, { series: series.prefix })
  const position = nextPosition(series, found?.last == null ? null : Number(found.last))
  const issuedAt = found?.issued_at == null ? of.issuedAt : later(of.issuedAt, instant(found.issued_at))
  const issued = { ...of, number: numberAt(series, position), issuedAt }
  yield* tx.together(
    tx.run(ADD, rowOf(issued, { series: series.prefix, position })),
    addAudit(tx, entryOf(issued), real),
  )
  return issued
}
