// billing invoice: one partner's month as a page that can be sent.

import { z } from 'zod'
import {
  type Invoice,
  invoiceOf,
  type Layout,
  numberOf,
  type OrdersScope,
  orderLineJson,
  orderPages,
  type Parties,
  type Party,
  pageOf,
} from '../../billing/invoice.ts'
import { HTML, invoiceJson, MARKDOWN } from '../../billing/invoice-print.ts'
import { formatUsd } from '../../core/money.ts'
import { isMonth, periodOf } from '../../core/month.ts'
import { PARTNER_SLUG_PATTERN } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import type { Store } from '../../store/store.ts'
import { tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { readInput } from '../streams.ts'
import { note, print } from '../terminal.ts'
import { collectOften, fixPeriodFor, noteStage, refuseTarget, type Target, writeTo } from './reports.ts'

export type InvoiceFormat = 'html' | 'md' | 'json'
export type InvoiceOptions = Target & {
  partner: string
  month: string
  format: InvoiceFormat
  settings?: string
}

export async function writeInvoice(cli: Cli, store: Store, options: InvoiceOptions): Promise<void> {
  const { partner: slug, month, format, settings, output } = options
  await refuseTarget(cli, options)
  collectOften()
  const parties = settings === undefined ? null : readParties(settings, { month, slug })
  const tenant = await tenantNamed(store, slug, 'live')
  const filter = { slug, environment: 'live' } as const
  if ((await store.listTenants(filter, periodOf(month).end)).length === 0) {
    throw new Problem(
      'partner_not_found',
      `There was no partner ${slug} yet in ${month}: nothing is owed for it.`,
    )
  }
  const period = await fixPeriodFor(cli, store, { month, filter })
  noteStage(cli, period)
  if (parties === null) note(cli, 'Without --settings the invoice has no issuer and no address.')
  const scope = { store, period, filter }
  const invoice = await invoiceOf(scope, tenant, parties)
  const { statement } = invoice
  await writeTo(
    cli,
    options,
    format === 'json' ? jsonOf(scope, invoice) : pageOf(scope, invoice, LAYOUTS[format]),
  )
  if (output === null) return
  const number = numberOf(statement)
  const total = formatUsd(statement.fees.total)
  const done = { file: output, invoice_number: number, total_fee_usd: total, final: period.final }
  if (cli.globals().json) print(cli, done, () => '')
  else
    note(
      cli,
      `${number === null ? 'Provisional invoice' : `Invoice ${number}`} of ${total} USD in ${output}.`,
    )
}

const LAYOUTS: Record<Exclude<InvoiceFormat, 'json'>, Layout> = { html: HTML, md: MARKDOWN }

async function* jsonOf(scope: OrdersScope, invoice: Invoice): AsyncGenerator<string> {
  yield `${JSON.stringify(invoiceJson(invoice)).slice(0, -1)},"adjustments":[`
  let separator = ''
  for await (const page of orderPages(scope)) {
    for (const line of page) {
      yield separator + JSON.stringify(orderLineJson(line))
      separator = ','
    }
  }
  yield ']}\n'
}

// The settings file of invoices: the sender, and the names and addresses of the recipients, by the month from which
// they hold.

const LINE_MAX = 200
const LINES_MAX = 20

const line = z
  .string()
  .min(1)
  .max(LINE_MAX)
  .refine((text) => text.trim() !== '' && !/\p{Cc}/u.test(text), 'must be one line of text')
const lines = z.array(line).max(LINES_MAX)

const party = z.strictObject({
  /** The first month it holds for. */
  from: z.string().refine(isMonth, 'must be a month, YYYY-MM').optional(),
  name: line,
  address: lines.min(1),
  tax_id: line.optional(),
})
const issuer = party.extend({ notes: lines.optional() })

/** One entry, or several that take turns: each holds until the month in which the next begins. */
const versions = <T extends { from?: string | undefined }>(one: z.ZodType<T>) =>
  z
    .preprocess((given) => (Array.isArray(given) ? given : [given]), z.array(one).min(1))
    .refine(
      (entries) => new Set(entries.map(({ from }) => from)).size === entries.length,
      'has two entries that begin in the same month',
    )

const settings = z.strictObject({
  issuer: versions(issuer),
  partners: z.record(z.string().regex(PARTNER_SLUG_PATTERN), versions(party)),
})

/**
 * The sender and the recipient of a month's invoice. Throws file_not_found, and bad_file with the field that is wrong.
 */
function readParties(file: string, { month, slug }: { month: string; slug: string }): Parties {
  const given = parsed(file)
  const read = settings.safeParse(given, { error: wordsOf })
  if (!read.success) {
    const complaints = read.error.issues.map(({ path, message }) =>
      `${placeOf(given, path)} ${message}`.trim(),
    )
    throw new Problem('bad_file', `${file}: ${complaints.join('; ')}.`)
  }
  const from = inForce(read.data.issuer, month)
  const to = inForce(read.data.partners[slug] ?? [], month)
  if (!from) throw new Problem('bad_file', `${file}: issuer has no entry for ${month}.`)
  if (!to) throw new Problem('bad_file', `${file}: partners.${slug} has no entry for ${month}.`)
  return { issuer: { ...partyOf(from), notes: from.notes ?? [] }, partner: partyOf(to) }
}

function parsed(file: string): unknown {
  try {
    return JSON.parse(readInput(file).replace(/^\uFEFF/, ''))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Problem('bad_file', `${file} is not JSON: ${error.message}.`)
  }
}

/** The entry with the latest beginning that is not after the month. */
function inForce<T extends { from?: string | undefined }>(
  entries: readonly T[],
  month: string,
): T | undefined {
  const begin = ({ from }: T): string => from ?? ''
  const begun = entries.filter((entry) => begin(entry) <= month)
  return begun.toSorted((a, b) => (begin(a) < begin(b) ? -1 : 1)).at(-1)
}

const partyOf = ({ name, address, tax_id }: z.infer<typeof party>): Party => ({
  name,
  address,
  taxId: tax_id ?? null,
})

/** The name of a field as it is written in the file: a single entry has no number there. */
function placeOf(given: unknown, path: readonly PropertyKey[]): string {
  let name = ''
  let here: unknown = given
  for (const key of path) {
    if (typeof key === 'number' && !Array.isArray(here)) continue
    name += typeof key === 'number' ? `[${key}]` : `${name === '' ? '' : '.'}${String(key)}`
    here = (here as Record<PropertyKey, unknown> | null | undefined)?.[key]
  }
  return name
}

const KINDS: Record<string, string> = {
  string: 'text',
  array: 'a list of lines',
  object: 'an object',
  record: 'an object',
}

/** What is wrong with a field, to follow its name; zod's own message where we have none. */
function wordsOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : `must be ${KINDS[issue.expected] ?? issue.expected}`
    case 'unrecognized_keys':
      return `has unknown settings: ${issue.keys.join(', ')}`
    case 'too_small':
      return 'must not be empty'
    case 'too_big':
      return `must be at most ${issue.maximum} ${issue.origin === 'string' ? 'characters' : 'lines'}`
    case 'invalid_key':
      return 'is not the slug of a partner'
    default:
      return undefined
  }
}
