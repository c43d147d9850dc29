// The settings file of invoices: the sender, and the names and addresses of the recipients, by the month from which
// they hold.

import { z } from 'zod'
import type { Parties, Party } from '../../billing/invoice/figures.ts'
import { isMonth } from '../../core/month.ts'
import { PARTNER_SLUG_PATTERN } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { readInput } from '../shared/read-input.ts'

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
export function readParties(file: string, { month, slug }: { month: string; slug: string }): Parties {
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

/** What is wrong with a field, said after its name; without a word of ours, zod's own. */
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
