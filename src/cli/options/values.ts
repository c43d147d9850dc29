// Readers of option values: each turns a word into a value or says what it should have been.

import { InvalidArgumentError, Option } from 'commander'
import { type Instant, parseInstant, plus } from '../../core/instant.ts'
import { isMonth } from '../../core/month.ts'
import { ENVIRONMENTS, PARTNER_SLUG_MAX, PARTNER_SLUG_PATTERN } from '../../core/partner.ts'
import { REASON_MAX } from '../../core/text-lengths.ts'
import { duration } from './durations.ts'

export function slug(text: string): string {
  if (PARTNER_SLUG_PATTERN.test(text)) return text
  throw new InvalidArgumentError(
    `A slug is 2 to ${PARTNER_SLUG_MAX} lower-case letters, digits and hyphens, not starting with a hyphen.`,
  )
}

export function month(text: string): string {
  if (isMonth(text)) return text
  throw new InvalidArgumentError('A month is written YYYY-MM, from 0001-01 to 9999-12.')
}

/** A date, which is its midnight in UTC, an RFC 3339 time, or a span such as 24h that has passed since. */
export const time =
  (clock: () => Instant) =>
  (text: string): Instant => {
    if (/^\d+[a-z]$/.test(text)) return plus(clock(), -duration(text))
    const parsed = parseInstant(text)
    if (parsed.ok) return parsed.at
    throw new InvalidArgumentError(
      'Give a day such as 2026-01-31, a time such as 2026-01-31T08:00:00Z, or 24h.',
    )
  }

/** Dollars with at most two places; kept as text until the command reads it as money. */
export function dollars(text: string): string {
  if (/^\d{1,10}(\.\d{1,2})?$/.test(text)) return text
  throw new InvalidArgumentError('An amount is a decimal with at most two places, such as 5.00.')
}

/** Dollars or coins to the last decimal place that the ledger keeps; what an operator typed is never rounded. */
export function amount(text: string): string {
  if (/^\d{1,10}(\.\d{1,8})?$/.test(text)) return text
  throw new InvalidArgumentError(
    'An amount is a decimal of at most eight places and not negative, such as 9.50.',
  )
}

/** A required --reason: one line of text. */
export const reasonOption = (what: string) => optionalReason(what).makeOptionMandatory()

export const optionalReason = (what: string) =>
  new Option('--reason <text>', what).argParser((text: string): string => {
    const reason = text.trim()
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
    if (reason !== '' && [...reason].length <= REASON_MAX && !/[\u0000-\u001f\u007f]/.test(reason))
      return reason
    throw new InvalidArgumentError(`A reason is one line of 1 to ${REASON_MAX} characters.`)
  })

export function positivePrice(text: string): string {
  if (/^\d{1,8}(\.\d{1,8})?$/.test(text) && /[1-9]/.test(text)) return text
  throw new InvalidArgumentError('A price is a positive decimal, such as 64250.50.')
}

export const wholeNumber =
  (min: number, max: number) =>
  (text: string): number => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`)
  }

/** The number that a made-up partner is drawn from. */
export const seedOption = (what: string): Option =>
  new Option('--seed <number>', what).argParser(wholeNumber(0, 999_999_999)).default(1)

export const environmentOption = () =>
  new Option('--env <environment>', 'the environment').choices(ENVIRONMENTS)
