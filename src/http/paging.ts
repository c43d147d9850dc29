// Lists in pages: how many rows a page has, and the cursor that says where the next one begins.

import type { z } from 'zod'
import type { Period } from '../core/month.ts'
import { FieldError, field } from './fields.ts'

export const PAGE_DEFAULT = 100
export const PAGE_MAX = 1_000
/** The most executions that one poll returns. */
export const DUE_PAGE_MAX = 500

/** The longest cursor: the end of a period and an id of characters of four bytes, wrapped. */
export const CURSOR_MAX = 1_400
/** How a cursor is written. */
export const CURSOR = { minLength: 1, maxLength: CURSOR_MAX, pattern: '^[A-Za-z0-9_-]+$' }

export const limit = field({ type: 'integer', minimum: 1, maximum: PAGE_MAX }, (input) => {
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

/**
 * A place in a list as text, and back; null for text that is not such a place. No two lists write a place in the same
 * way.
 */
export type Places<T> = { write: (place: T) => string; read: (text: string) => T | null }

/** A cursor is a place, wrapped so that nobody takes it apart. */
export const wrap = (text: string): string => Buffer.from(text, 'utf8').toString('base64url')

export const cursor = <T>({ read, write }: Places<T>) =>
  field({ type: 'string', ...CURSOR }, (input): T | FieldError => {
    const text =
      typeof input === 'string' && input.length <= CURSOR_MAX
        ? Buffer.from(input, 'base64url').toString('utf8')
        : ''
    const place = read(text)
    return place !== null && wrap(write(place)) === input ? place : NOT_ONE
  })

const NOT_ONE = new FieldError('value_error', 'Value error, cursor is not one of a page')

/** Refuses a cursor of another month: the listing would begin in the wrong place. */
export const ofItsMonth =
  <T>(isIn: (place: T, month: Period) => boolean) =>
  (query: { month: Period; cursor?: T | undefined }, context: z.core.$RefinementCtx): void => {
    if (query.cursor === undefined || isIn(query.cursor, query.month)) return
    const { type, message } = NOT_ONE
    context.addIssue({ code: 'custom', path: ['cursor'], message, params: { type } })
  }

/** The first `limit` of the rows, of which one more was read than the page has, and the cursor after them. */
export function pageOf<T>(rows: readonly T[], limit: number, writeLast: (last: T) => string) {
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  return { page, next_cursor: rows.length > limit && last !== undefined ? wrap(writeLast(last)) : null }
}
