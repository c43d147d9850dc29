// The settings file of finance: who sends invoices, their numbers, the names, addresses and taxes of the recipients,
// each from a month on, and the accounts of journals.

import { z } from 'zod'
import { DESCRIPTION, PAGES, type Parties, type Party } from '../../billing/invoice.ts'
import { ACCOUNTS, type Accounts } from '../../billing/journal.ts'
import { COUNTRY_PATTERN, rateBpsOf, type Series, TAX_RATE_PATTERN, type Tax } from '../../core/invoice.ts'
import { isMonth } from '../../core/month.ts'
import { PARTNER_SLUG_PATTERN } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { readInput } from '../input-file.ts'

const LINE_MAX = 200
const LINES_MAX = 20
const DUE_DAYS_MAX = 730

const line = z
  .string()
  .min(1)
  .max(LINE_MAX)
  .refine((text) => text.trim() !== '' && !/\p{Cc}/u.test(text), 'must be one line of text')
const lines = z.array(line).max(LINES_MAX)
const country = z.string().regex(COUNTRY_PATTERN, 'must be two capital letters, such as DE')
const dueDays = z.number().int().min(0).max(DUE_DAYS_MAX)

const party = z.strictObject({
  /** The first month it holds for. */
  from: z.string().refine(isMonth, 'must be a month, YYYY-MM').optional(),
  name: line,
  address: lines.min(1),
  country: country.optional(),
  tax_id: line.optional(),
  due_days: dueDays.optional(),
})

const numbers = z.strictObject({
  prefix: z
    .string()
    .max(20)
    .refine(
      (text) => /^[A-Za-z0-9/-]*$/.test(text) && !/\d$/.test(text),
      'must be letters, digits, - and /, and not end with a digit',
    ),
  first: z.number().int().min(1).max(999_999_999).default(1),
  digits: z.number().int().min(1).max(9).default(4),
})
const issuer = party.extend({
  notes: lines.optional(),
  numbers: numbers.optional(),
  description: line.optional(),
  page: z.enum(PAGES).optional(),
})

const TAX_WORDS =
  'must be "reverse-charge", {"rate": "19", "label": "VAT"} or {"exempt": "the sentence that says why"}'
const tax = z.union(
  [
    z.literal('reverse-charge'),
    z.strictObject({
      rate: z.string().regex(TAX_RATE_PATTERN, 'must be percent, such as "19" or "5.5"'),
      label: line.optional(),
    }),
    z.strictObject({ exempt: line }),
  ],
  { error: () => TAX_WORDS },
)
const customer = party.extend({ tax: tax.optional(), reference: line.optional(), note: line.optional() })

/** As hledger reads it: two spaces or a semicolon would end it, a bracket in front would make it virtual. */
const account = line.refine(
  (text) => /^[^\s;()[\]{}"*!]([^;{}\t]|\{partner\})*$/.test(text) && !/\s{2}|\s$/.test(text),
  'must be the name of an account, such as assets:receivable:{partner}',
)
const accounts = z.strictObject({
  receivable: account.default(ACCOUNTS.receivable),
  revenue: account.default(ACCOUNTS.revenue),
  tax: account.default(ACCOUNTS.tax),
})

/** One entry, or several in turn: each holds until the month in which the next begins. */
const versions = <T extends Dated>(one: z.ZodType<T>) =>
  z
    .preprocess((given) => (Array.isArray(given) ? given : [given]), z.array(one).min(1))
    .refine(
      (entries) => new Set(entries.map(({ from }) => from)).size === entries.length,
      'has two entries that begin in the same month',
    )

const settings = z.strictObject({
  issuer: versions(issuer),
  partners: z.record(z.string().regex(PARTNER_SLUG_PATTERN), versions(customer)),
  accounts: accounts.optional(),
})

export type Settings = {
  /** The sender and the recipient of a month's invoice. Throws bad_file where the month has none. */
  parties: (invoiced: { month: string; slug: string }) => Parties
  /** A partner's tax in a month; null where the file does not give it. */
  tax: (invoiced: { month: string; slug: string }) => Tax | null
  /** The number series of an issuer in a month; null without one. */
  numbers: (month: string) => Series | null
  accounts: Accounts
  wrong: (what: string) => Problem
}

/** Throws file_not_found, and bad_file with the faulty field. */
export function readSettings(file: string): Settings {
  const wrong = (what: string) => new Problem('bad_file', `${file}: ${what}.`)
  const given = parsed(file)
  const read = settings.safeParse(given, { error: wordsOf })
  if (!read.success) {
    const complaints = read.error.issues.map(({ path, message }) =>
      `${placeOf(given, path)} ${message}`.trim(),
    )
    throw wrong(complaints.join('; '))
  }
  const { data } = read
  const issuerOf = (month: string) => inForce(data.issuer, month)
  const customerOf = (slug: string, month: string) => inForce(data.partners[slug] ?? [], month)
  return {
    wrong,
    accounts: data.accounts ?? ACCOUNTS,
    tax: ({ month, slug }) => taxOf(customerOf(slug, month)?.tax),
    numbers: (month) => issuerOf(month)?.numbers ?? null,
    parties({ month, slug }) {
      const [from, to] = [issuerOf(month), customerOf(slug, month)]
      if (!from) throw wrong(`issuer has no entry for ${month}`)
      if (!to) throw wrong(`partners.${slug} has no entry for ${month}`)
      return {
        issuer: { ...partyOf(from), notes: from.notes ?? [] },
        partner: partyOf(to),
        description: from.description ?? DESCRIPTION,
        page: from.page,
        reference: to.reference,
        note: to.note,
        tax: taxOf(to.tax),
        dueDays: to.due_days ?? from.due_days ?? null,
      }
    },
  }
}

function parsed(file: string): unknown {
  try {
    return JSON.parse(readInput(file).replace(/^\uFEFF/, ''))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Problem('bad_file', `${file} is not JSON: ${error.message}.`)
  }
}

type Dated = { from?: string | undefined }

/** The entry with the latest beginning that is not after the month. */
function inForce<T extends Dated>(entries: readonly T[], month: string): T | undefined {
  const begin = ({ from }: Dated): string => from ?? ''
  const begun = entries.filter((entry) => begin(entry) <= month)
  return begun.toSorted((a, b) => (begin(a) < begin(b) ? -1 : 1)).at(-1)
}

const partyOf = ({ name, address, country, tax_id }: z.infer<typeof party>): Party => ({
  name,
  address,
  country: country ?? null,
  taxId: tax_id ?? null,
})

function taxOf(given: z.infer<typeof tax> | undefined): Tax | null {
  if (given === undefined) return null
  if (given === 'reverse-charge') return { kind: 'reverse-charge' }
  return 'rate' in given
    ? { kind: 'rate', rateBps: rateBpsOf(given.rate), label: given.label }
    : { kind: 'exempt', why: given.exempt }
}

/** The name of a field as written in the file: a single entry has no number there. */
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
  number: 'a number',
  int: 'a whole number',
}

/** The fault of a field, to follow its name; zod's own message where we have none. */
function wordsOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : `must be ${KINDS[issue.expected] ?? issue.expected}`
    case 'unrecognized_keys':
      return `has unknown settings: ${issue.keys.join(', ')}`
    case 'too_small':
      return issue.origin === 'number' ? `must be ${issue.minimum} or more` : 'must not be empty'
    case 'too_big':
      if (issue.origin === 'number' || issue.origin === 'int') return `must be at most ${issue.maximum}`
      return `must be at most ${issue.maximum} ${issue.origin === 'string' ? 'characters' : 'lines'}`
    case 'invalid_value':
      return `must be ${issue.values.join(' or ')}`
    case 'invalid_key':
      return 'is not the slug of a partner'
    default:
      return undefined
  }
}
