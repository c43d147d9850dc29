// The fields of requests and answers, on zod. A field of a request reports errors in the words of pydantic v2, for
// which existing clients were written; `params.type` carries its error type.

import { z } from 'zod'
import { DECIMAL_PATTERN, formatUsd, type Usd } from '../core/money.ts'
import type { Period } from '../core/month.ts'
import { ENVIRONMENTS, PARTNER_SLUG_MAX, PARTNER_SLUG_PATTERN } from '../core/partner.ts'
import { cut, ID_MAX, TEXT_MAX } from '../core/text.ts'
import { type Instant, parseInstant } from '../core/time.ts'
import { BODY_BYTES_MAX } from './request.ts'

/** A refusal of one field: pydantic's error type and message. */
export class FieldError {
  readonly type: string
  readonly message: string

  constructor(type: string, message: string) {
    this.type = type
    this.message = message
  }
}

const missing = new FieldError('missing', 'Field required')

/** A field read by `parse`, which returns the value or a FieldError. `schema` describes it for the API's reader. */
export function field<T>(schema: z.core.JSONSchema.BaseSchema, parse: (input: unknown) => T | FieldError) {
  return z
    .unknown()
    .transform((input, context): T => {
      const parsed = input === undefined ? missing : parse(input)
      if (!(parsed instanceof FieldError)) return parsed
      context.addIssue({ code: 'custom', message: parsed.message, params: { type: parsed.type } })
      return z.NEVER
    })
    .meta(schema)
}

/** Text without control characters, as the API description has it. */
export const oneLine = (max: number) => ({ minLength: 1, maxLength: max, pattern: WITHOUT_CONTROLS })
const CONTROLS = '\\u0000-\\u001f\\u007f-\\u009f'
const WITHOUT_CONTROLS = `^[^${CONTROLS}]+$`

/** Text of 1 to `max` characters, without control characters. Never trimmed. */
export const text = ({ max = TEXT_MAX } = {}) =>
  field({ type: 'string', ...oneLine(max) }, (input) => parseText(input, { max }))

/** Text that is accepted whatever it contains. Characters that cannot be shown are replaced before it is stored. */
export const remark = ({ max }: { max: number }) =>
  field({ type: 'string', maxLength: BODY_BYTES_MAX }, (input) =>
    typeof input === 'string' ? showable(input, max) : notText,
  )

/** A field's text and example for the API, under a name of our own: zod drops the examples of transforms. */
export const describe = (description: string, example: unknown) => ({ description, [SAMPLE]: example })
export const SAMPLE = 'x-sample'

export const id = () => text({ max: ID_MAX })

/** One line that is not `.` or `..`. Generators make no type of a `not`, and some languages know no look-ahead. */
const NO_DOTS = `^(\\.*[^.${CONTROLS}][^${CONTROLS}]*|\\.{3,})$`

/** An id that must fit in a path: every URL parser removes the segments `.` and `..`. */
export const pathId = () =>
  field({ type: 'string', ...oneLine(ID_MAX), pattern: NO_DOTS }, (input) => {
    if (input !== '.' && input !== '..') return parseText(input, { max: ID_MAX })
    return new FieldError('value_error', 'Value error, must not be "." or ".."')
  })

export const bool = () =>
  field({ type: 'boolean' }, (input) =>
    typeof input === 'boolean' ? input : new FieldError('bool_type', 'Input should be a valid boolean'),
  )

export const oneOf = <const T extends string>(values: readonly T[]) =>
  field({ type: 'string', enum: [...values] }, (input) => {
    const found = values.find((value) => value === input)
    return (
      found ??
      new FieldError('literal_error', `Input should be ${EITHER.format(values.map((value) => `'${value}'`))}`)
    )
  })

type DecimalBounds<T extends bigint> = { placesMax?: number; above?: T; atLeast?: T; atMost?: T }

/** A decimal string within bounds, read by `read` (which rounds), bounded after rounding. */
export const decimal = <T extends bigint>(read: (text: string) => T, bounds: DecimalBounds<T>) =>
  field({ type: 'string', ...writtenIn(bounds) }, (input): T | FieldError => {
    if (typeof input !== 'string') return notText
    if (!DECIMAL_PATTERN.test(input))
      return new FieldError('decimal_parsing', 'Input should be a valid decimal')
    const { placesMax, above, atLeast, atMost } = bounds
    if (placesMax !== undefined && (input.split('.')[1] ?? '').length > placesMax) {
      return new FieldError(
        'decimal_max_places',
        `Decimal input should have no more than ${placesMax} decimal places`,
      )
    }
    const value = read(input)
    if (above !== undefined && value <= above)
      return new FieldError('greater_than', `Input should be greater than ${boundText(above, placesMax)}`)
    if (atLeast !== undefined && value < atLeast) {
      const least = boundText(atLeast, placesMax)
      return new FieldError('greater_than_equal', `Input should be greater than or equal to ${least}`)
    }
    if (atMost !== undefined && value > atMost) {
      return new FieldError(
        'less_than_equal',
        `Input should be less than or equal to ${boundText(atMost, placesMax)}`,
      )
    }
    return value
  })

/** A bound in an error message: with two decimals where the field takes whole cents, otherwise as a whole number. */
function boundText(bound: bigint, placesMax?: number): string {
  const text = formatUsd(bound as Usd)
  return placesMax === undefined ? text.replace(/\.00$/, '') : text
}

/** The pattern of a number within these bounds. It allows a sign only where a zero may be written -0. */
function writtenIn({ placesMax = 18, above, atLeast }: DecimalBounds<bigint>) {
  const positive = above !== undefined || (atLeast !== undefined && atLeast > 0n)
  const pattern = `^${positive ? '' : '-?'}\\d{1,18}(\\.\\d{1,${placesMax}})?$`
  return { pattern, maxLength: (positive ? 0 : 1) + 18 + 1 + placesMax }
}

/** An instant of the years 1 to 9999; one later than `limit.atMost` is refused in the words of `limit.beyond`. */
export const datetime = (limit?: { atMost: Instant; beyond: string }) =>
  // Digits below a millisecond are cut, however many there are.
  field({ type: 'string', format: 'date-time', maxLength: BODY_BYTES_MAX }, (input): Instant | FieldError => {
    if (typeof input !== 'string') return new FieldError('datetime_type', 'Input should be a valid datetime')
    const parsed = parseInstant(input)
    if (parsed.ok && limit && parsed.at > limit.atMost)
      return new FieldError('value_error', `Value error, ${limit.beyond}`)
    if (parsed.ok) return parsed.at
    if (parsed.problem === 'no_offset')
      return new FieldError('timezone_aware', 'Input should have timezone info')
    return new FieldError(
      'datetime_from_date_parsing',
      `Input should be a valid datetime or date, ${parsed.why}`,
    )
  })

export const notText = new FieldError('string_type', 'Input should be a valid string')

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: the same, line breaks and tabs allowed
const CONTROL_BUT_LINES = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g

function parseText(input: unknown, { max }: { max: number }): string | FieldError {
  if (typeof input !== 'string') return notText
  if (input === '') return new FieldError('string_too_short', 'String should have at least 1 character')
  const length = [...input].length
  if (length > max) return new FieldError('string_too_long', `String should have at most ${max} characters`)
  // Half a surrogate pair cannot be stored: two different ids would become the same.
  if (!input.isWellFormed()) return new FieldError('value_error', 'Value error, must be valid Unicode text')
  if (CONTROL.test(input))
    return new FieldError('value_error', 'Value error, must not contain control characters')
  return input
}

/** Controls but line breaks and tabs become spaces, half surrogate pairs U+FFFD; a longer text is cut. */
const showable = (input: string, max: number): string =>
  cut(input.toWellFormed().replace(CONTROL_BUT_LINES, ' '), max)

/** "a, b or c". */
export const EITHER = new Intl.ListFormat('en-GB', { type: 'disjunction' })

// The fields that several answers share: their shapes, descriptions and examples.

const DATE_TIME = '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$'

export const describeAnswer = (description: string, example?: unknown) => ({
  description,
  ...(example !== undefined && { examples: [example] }),
})

export const written = (form: object, description: string, example: string) =>
  z.string().meta({ ...form, ...describeAnswer(description, example) })

export const instant = (description: string, example = '2026-01-05T00:00:00.000Z') =>
  written({ format: 'date-time', pattern: DATE_TIME, maxLength: 24 }, description, example)

/** Text that was checked when it arrived: one line, without control characters. */
export const checkedText = (description: string, example: string, max = TEXT_MAX) =>
  written(oneLine(max), description, example)

export const prose = (description: string, example: string, max: number) =>
  written({ maxLength: max }, description, example)

/** An amount is as long as 32 characters: the ledger's have at most 20 digits and a point, a month's sums more. */
const amount =
  (pattern: string) =>
  (description: string, example = '10.00') =>
    written({ pattern, maxLength: 32 }, description, example)

/** Dollars: at least two places, at most eight. */
export const dollars = amount('^\\d+\\.\\d{2,8}$')
/** Sums of a month, which may be negative: corrections of an earlier month may outweigh this month's purchases. */
export const dollarSum = amount('^-?\\d+\\.\\d{2,8}$')
export const coinSum = amount('^-?\\d+\\.\\d{8}$')

export const count = (description: string, example = 1) =>
  z.int().min(0).meta(describeAnswer(description, example))
export const flag = (description: string, example: boolean) =>
  z.boolean().meta(describeAnswer(description, example))
export const choice = <const T extends string>(values: readonly T[], description: string, example: T) =>
  z.enum(values).meta(describeAnswer(description, example))
export const always = <const T extends string | true>(value: T, description: string) =>
  z.literal(value).meta(describeAnswer(description, value))

const SLUG = { pattern: PARTNER_SLUG_PATTERN.source, maxLength: PARTNER_SLUG_MAX }
/** The fields that name the tenant of a key, in nearly every answer. */
export const tenantFields = {
  partner_slug: written(SLUG, 'The partner the key belongs to.', 'acme'),
  environment: choice(ENVIRONMENTS, 'The environment the key belongs to.', 'test'),
}
export const partnerUserId = checkedText("The partner's id of the user.", 'user-1', ID_MAX)
export const partnerPlanId = checkedText("The partner's id of the plan.", 'plan-1', ID_MAX)
export const EXECUTION_ID = { pattern: '^exec_[0-9a-f]{32}$', maxLength: 37 }
export const executionId = written(
  EXECUTION_ID,
  'Stable across deliveries.',
  'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d',
)
export const createdAt = instant('When it was created.')
export const updatedAt = instant('When it last changed.')
export const ok = always(true, 'Always true.')

export const nextCursor = (example: string) =>
  z
    .string()
    .meta(CURSOR)
    .nullable()
    .meta(describeAnswer('Gives the next page; null on the last one.', example))

// Lists in pages: the size of a page, and the cursor that says where the next one begins.

export const PAGE_DEFAULT = 100
export const PAGE_MAX = 1_000

/** The longest cursor: the end of a period and an id of four-byte characters, encoded. */
export const CURSOR_MAX = 1_400
const CURSOR = { minLength: 1, maxLength: CURSOR_MAX, pattern: '^[A-Za-z0-9_-]+$' }

const limit = field({ type: 'integer', minimum: 1, maximum: PAGE_MAX }, (input) => {
  if (typeof input !== 'string' || !/^-?\d+$/.test(input)) {
    return new FieldError(
      'int_parsing',
      'Input should be a valid integer, unable to parse string as an integer',
    )
  }
  const value = Number(input)
  if (value < 1) return new FieldError('greater_than_equal', 'Input should be greater than or equal to 1')
  if (value > PAGE_MAX)
    return new FieldError('less_than_equal', `Input should be less than or equal to ${PAGE_MAX}`)
  return value
})

/** A place in a list as text, and back; null for text that is no such place. */
export type Cursors<T> = { write: (place: T) => string; read: (text: string) => T | null }

/** The cursors of a list whose places are ids, with a mark, because an id can look like any other place. */
export const idCursors = (mark: string): Cursors<string> => ({
  write: (id) => `${mark} ${id}`,
  read: (text) =>
    text.startsWith(`${mark} `) && text.length > mark.length + 1 ? text.slice(mark.length + 1) : null,
})

/** A cursor is a place, encoded so that no client depends on its parts. */
export const wrap = (text: string): string => Buffer.from(text, 'utf8').toString('base64url')

const cursor = <T>({ read, write }: Cursors<T>) =>
  field({ type: 'string', ...CURSOR }, (input): T | FieldError => {
    const text =
      typeof input === 'string' && input.length <= CURSOR_MAX
        ? Buffer.from(input, 'base64url').toString('utf8')
        : ''
    const place = read(text)
    return place !== null && wrap(write(place)) === input ? place : NOT_ONE
  })

/** The query parameters for a page of a list. `more` ends the sentence about the cursor. */
export const pageFields = <T>(noun: string, cursors: Cursors<T>, sample: string, more = '') => ({
  limit: limit.meta(describe(`The ${noun} of a page; ${PAGE_DEFAULT} by default.`, PAGE_DEFAULT)).optional(),
  cursor: cursor(cursors)
    .meta(describe(`The next_cursor of the page before${more}.`, sample))
    .optional(),
})

const NOT_ONE = new FieldError('value_error', 'Value error, cursor must be the next_cursor of a page')

/** Refuses a cursor of another month: the listing would begin in the wrong place. */
export const ofItsMonth =
  <T>(isIn: (place: T, month: Period) => boolean) =>
  (query: { month: Period; cursor?: T | undefined }, context: z.core.$RefinementCtx): void => {
    if (query.cursor === undefined || isIn(query.cursor, query.month)) return
    const { type, message } = NOT_ONE
    context.addIssue({ code: 'custom', path: ['cursor'], message, params: { type } })
  }

type PageQuery<T> = { limit?: number | undefined; cursor?: T | undefined }

/** The rows to read for a page: one more than it has, which shows whether another page follows. */
export const rowsFor = <T>({ limit = PAGE_DEFAULT, cursor }: PageQuery<T>) => ({
  after: cursor ?? null,
  limit: limit + 1,
})

/** The page of those rows, and the cursor after it. */
export function pageOf<T>(
  rows: readonly T[],
  { limit = PAGE_DEFAULT }: PageQuery<unknown>,
  writeLast: (last: T) => string,
) {
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  return { page, next_cursor: rows.length > limit && last !== undefined ? wrap(writeLast(last)) : null }
}
