// Readers of option values: each turns a word into a value or says what it should have been.

import { InvalidArgumentError, Option } from 'commander'
import { DAY_MS, HOUR_MS, MINUTE_MS, MONTH_PATTERN, SECOND_MS } from '../../core/instant.ts'
import { ENVIRONMENTS, PARTNER_SLUG_MAX, PARTNER_SLUG_PATTERN } from '../../core/partner.ts'
import { REASON_MAX } from '../../core/text.ts'

const DURATION_UNIT_MS: Record<string, number> = { s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS }

export function duration(text: string): number {
  const parts = /^(\d{1,6})([smhd])$/.exec(text)
  const unit = DURATION_UNIT_MS[parts?.[2] ?? '']
  if (!parts || unit === undefined || Number(parts[1]) === 0) {
    throw new InvalidArgumentError('Give a whole number and a unit, such as 60s, 15m, 24h or 90d.')
  }
  return Number(parts[1]) * unit
}

export const durationOrOff = (text: string): number | null => (text === 'off' ? null : duration(text))

export function slug(text: string): string {
  if (PARTNER_SLUG_PATTERN.test(text)) return text
  throw new InvalidArgumentError(
    `A slug is 2 to ${PARTNER_SLUG_MAX} lower-case letters, digits and hyphens, not starting with a hyphen.`,
  )
}

export function month(text: string): string {
  if (MONTH_PATTERN.test(text) && '1970' <= text && text < '9999') return text
  throw new InvalidArgumentError('A month is written YYYY-MM.')
}

/** Dollars with at most two places; kept as text until the command reads it as money. */
export function dollars(text: string): string {
  if (/^\d{1,10}(\.\d{1,2})?$/.test(text)) return text
  throw new InvalidArgumentError('An amount is a decimal with at most two places, such as 5.00.')
}

/** Dollars or coins to the last place the ledger keeps; nothing is rounded that an operator typed. */
export function amount(text: string): string {
  if (/^\d{1,10}(\.\d{1,8})?$/.test(text)) return text
  throw new InvalidArgumentError(
    'An amount is a decimal of at most eight places and not negative, such as 9.50.',
  )
}

/** A --reason that has to be given: one line of somebody's words. */
export const reasonOption = (what: string) =>
  new Option('--reason <text>', what).makeOptionMandatory().argParser((text: string): string => {
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

export const environmentOption = () =>
  new Option('--env <environment>', 'the environment').choices(ENVIRONMENTS)
