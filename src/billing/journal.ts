// A month as a journal for plain text accounting with hledger: what each partner owes, and for what.

import type { Statement } from '../core/fees.ts'
import { type Issued, type Tax, taxOf } from '../core/invoice.ts'
import { formatUsd, type Usd, ZERO_USD } from '../core/money.ts'
import { type FixedPeriod, periodOf } from '../core/month.ts'
import { plus, utcDate } from '../core/time.ts'
import type { TenantFilter } from '../store/store.ts'
import { issuedPages } from './export.ts'
import { feeLines } from './invoice.ts'
import { type BillingStore, bill } from './statement.ts'

/** In each name, {partner} stands for the slug. */
export type Accounts = { receivable: string; revenue: string; tax: string }
export const ACCOUNTS: Accounts = {
  receivable: 'assets:receivable:{partner}',
  revenue: 'revenues:fees',
  tax: 'liabilities:tax',
}

type JournalScope = {
  store: BillingStore
  periods: readonly FixedPeriod[]
  filter: TenantFilter
  accounts: Accounts
  tax: (invoiced: { month: string; slug: string }) => Tax | null
}

/** The commodity and the decimal mark, so that no reader has to guess them. */
const HEAD = 'decimal-mark .\ncommodity 1000.00 USD\n'

type Written = { text: string; rows: number }

/** A transaction for each partner and month that owes, and for each credit note of it; all of them, or none. */
export async function* journalOf(scope: JournalScope): AsyncGenerator<Written> {
  const written: Written[] = [{ text: HEAD, rows: 0 }]
  for (const period of scope.periods) {
    for await (const page of issuedPages({ ...scope, period }))
      for (const issued of page) if (issued.corrects !== null) written.push(credited(scope, issued))
    for (const tenant of await scope.store.listTenants(scope.filter, periodOf(period.month).end)) {
      const { statement } = await bill(scope.store, tenant, period)
      if (statement.fees.total > 0n) written.push(await charged(scope, statement))
    }
  }
  yield* written
}

/** Dated on the last day of the month, when the fee was earned. An issued invoice keeps its own tax. */
async function charged(scope: JournalScope, statement: Statement): Promise<Written> {
  const { tenant, period, fees } = statement
  const { month, end } = period
  const slug = tenant.partnerSlug
  const issued = await scope.store.findInvoiceOf(slug, month)
  const tax = issued?.tax ?? taxOf(fees.total, scope.tax({ month, slug }))
  const lines = feeLines(statement).map(
    ({ item, amount }): Posting => ({ account: 'revenue', amount: -amount as Usd, note: item }),
  )
  return transaction(scope, {
    date: utcDate(plus(end, -1)),
    number: issued?.number ?? null,
    slug,
    note: `fees of ${month}`,
    postings: [
      { account: 'receivable', amount: (fees.total + tax) as Usd },
      ...lines,
      { account: 'tax', amount: -tax as Usd },
    ],
  })
}

const credited = (
  scope: JournalScope,
  { number, partnerSlug, issuedAt, corrects, net, tax }: Issued,
): Written =>
  transaction(scope, {
    date: utcDate(issuedAt),
    number,
    slug: partnerSlug,
    note: `credit note for ${corrects}`,
    postings: [
      { account: 'receivable', amount: (-net - tax) as Usd },
      { account: 'revenue', amount: net },
      { account: 'tax', amount: tax },
    ],
  })

type Posting = { account: keyof Accounts; amount: Usd; note?: string }
type Transaction = {
  date: string
  number: string | null
  slug: string
  note: string
  postings: readonly Posting[]
}

/** Throws on an unbalanced transaction, which is a bug: its reader would find it only once it is on file. */
function transaction(
  { accounts }: JournalScope,
  { date, number, slug, note, postings }: Transaction,
): Written {
  const sum = postings.reduce((total, { amount }) => total + amount, 0n)
  if (sum !== 0n) throw new Error(`the journal of ${slug} is off by ${formatUsd(sum as Usd)}`)
  const rows = postings
    .filter(({ amount }) => amount !== ZERO_USD)
    .map(({ account, amount, note }) => {
      const name = accounts[account].replaceAll('{partner}', slug)
      return { name, amount: `${formatUsd(amount)} USD`, note: note === undefined ? '' : `  ; ${note}` }
    })
  const names = Math.max(...rows.map(({ name }) => name.length))
  const amounts = Math.max(...rows.map(({ amount }) => amount.length))
  const written = rows.map(
    ({ name, amount, note }) => `    ${name.padEnd(names)}  ${amount.padStart(amounts)}${note}\n`,
  )
  return {
    text: `\n${date} * ${number === null ? '' : `(${number}) `}${slug} | ${note}\n${written.join('')}`,
    rows: 1,
  }
}
