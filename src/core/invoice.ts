// Invoices for a month's charges: tax, numbers, credit notes, and what the law requires. Integers throughout; a tax is
// rounded once.

import { BPS_ONE } from './fees.ts'
import { CENT, formatUsd, type Usd, ZERO_USD } from './money.ts'
import { Problem } from './problem.ts'
import type { Instant } from './time.ts'

// Tax: a rate, or the reason why there is none.

export type Tax =
  | { kind: 'rate'; rateBps: number; label?: string | undefined }
  /** The customer owes the tax: within the EU, between two countries. */
  | { kind: 'reverse-charge' }
  /** The sentence on the invoice that says why there is none. */
  | { kind: 'exempt'; why: string }

export const TAX_RATE_PATTERN = /^\d{1,2}(\.\d{1,2})?$/

/** A rate of `TAX_RATE_PATTERN`, in hundredths of a percent. */
export function rateBpsOf(percent: string): number {
  const [whole = '', places = ''] = percent.split('.')
  return Number(whole) * 100 + Number(places.padEnd(2, '0'))
}

/** A rate as it is printed: 19 %, 5.5 %. */
export const percentOf = (rateBps: number): string => `${rateBps / 100} %`

/** net x rate, rounded once, half up to the cent, as tax offices do: on the whole amount, never on its parts. */
export function taxOf(net: Usd, tax: Tax | null): Usd {
  if (tax?.kind !== 'rate') return ZERO_USD
  const per = BPS_ONE * CENT
  return (((net * BigInt(tax.rateBps) * 2n + per) / (per * 2n)) * CENT) as Usd
}

// Numbers: consecutive within a series, assigned once and kept.

export type Series = { prefix: string; first: number; digits: number }

export const numberAt = ({ prefix, digits }: Series, position: number): string =>
  `${prefix}${String(position).padStart(digits, '0')}`

/** The number for an issuer without a series: unique, and the same whenever the invoice is made. */
export const numberWithoutSeries = (partnerSlug: string, month: string): string => `${partnerSlug}-${month}`

/** The position after the last one. A `first` above it skips ahead, for numbers that other books have used. */
export const nextPosition = ({ first }: Series, last: number | null): number =>
  last === null || last < first ? first : last + 1

/** An invoice or a credit note as it was issued. It never changes. */
export type Issued = {
  number: string
  partnerSlug: string
  /** The month that is charged, or whose invoice is corrected. */
  month: string
  /** The invoice that a credit note corrects; null for an invoice. */
  corrects: string | null
  issuedAt: Instant
  net: Usd
  tax: Usd
  /** The printed settings, and the reason of a credit note, as JSON. */
  details: string
}

/** The amount with its sign in a sum: a credit note is negative. */
export const signed = ({ corrects }: Pick<Issued, 'corrects'>, amount: Usd): Usd =>
  corrects === null ? amount : (-amount as Usd)

/**
 * Computes a credit note with its tax: the tax on what was left before, less the tax on what is left after, so that the
 * rest of an invoice always has the tax of its own net amount. Throws invoice_conflict, also for the same credit twice,
 * because a caller that missed the answer repeats the call.
 */
export function creditOf(
  invoice: Issued,
  credit: { earlier: readonly Issued[]; tax: Tax | null } & Pick<Issued, 'net' | 'details'>,
): Pick<Issued, 'net' | 'tax' | 'details'> {
  const { earlier, net, tax, details } = credit
  if (invoice.corrects !== null)
    throw conflict(`${invoice.number} is a credit note; a credit note corrects an invoice.`)
  // The details of all credit notes of one invoice differ only in their reasons.
  const same = earlier.find((one) => one.net === net && one.details === details)
  if (same)
    throw conflict(
      `${same.number} has already credited ${formatUsd(net)} for the same reason: give another reason to credit it again.`,
    )
  const left = (invoice.net - earlier.reduce((sum, one) => sum + one.net, 0n)) as Usd
  if (left === 0n) throw conflict(`${invoice.number} has been credited in full: nothing is left of it.`)
  if (net <= 0n || net > left) {
    const limit = earlier.length === 0 ? 'its net amount' : 'what earlier credit notes have left of it'
    throw conflict(`${invoice.number} can be credited with 0.01 to ${formatUsd(left)}, ${limit}.`)
  }
  const after = (left - net) as Usd
  return { net, tax: (taxOf(left, tax) - taxOf(after, tax)) as Usd, details }
}

const conflict = (message: string): Problem => new Problem('invoice_conflict', message)

// The legal requirements for an invoice, where they are known: those of the EU's member states.

const EU = 'AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK'.split(' ')

export const COUNTRY_PATTERN = /^[A-Z]{2}$/
const isInEu = (country: string | null): country is string => country !== null && EU.includes(country)
/** Greece writes EL in front of its tax numbers. */
const vatPrefix = (country: string): string => (country === 'GR' ? 'EL' : country)

type TaxParty = { country: string | null; taxId: string | null }

/** Whether the id has the form of a VAT number of its country in the EU. */
export const hasVatNumber = ({ country, taxId }: TaxParty): boolean =>
  isInEu(country) &&
  new RegExp(`^${vatPrefix(country)}[0-9A-Z+*]{2,12}$`).test((taxId ?? '').replaceAll(/[ .-]/g, ''))

export function lacksOf(issuer: TaxParty, customer: TaxParty & { tax: Tax | null }): string[] {
  if (issuer.country === null) return ['issuer.country is missing: it says which law the invoice has to meet']
  if (!isInEu(issuer.country)) return []
  const lacks: string[] = []
  if (issuer.taxId === null) lacks.push('issuer.tax_id is missing: an invoice from the EU has it')
  if (customer.country === null)
    lacks.push('country is missing: where the customer is decides whether there is VAT')
  if (customer.tax === null)
    lacks.push('tax is missing: an invoice from the EU has a rate of VAT, or says why there is none')
  if (customer.tax?.kind !== 'reverse-charge' || customer.country === null) return lacks
  if (!isInEu(customer.country) || customer.country === issuer.country)
    lacks.push(`tax is "reverse-charge", which is for a customer in another country of the EU`)
  if (customer.taxId === null)
    lacks.push('tax_id is missing: a reverse charge names the VAT number of the customer')
  else if (!hasVatNumber(customer))
    lacks.push(
      `tax_id must be a VAT number of ${customer.country}, which begins with ${vatPrefix(customer.country)}`,
    )
  return lacks
}
